// Package workflowcheck tests that code of workflows is deterministic, and that the check notices when it is not.
package workflowcheck
