// Package lineage derives OpenLineage events from the log of a run. It is pure: ids are hashes of the ids of the run,
// of its steps and of their dbt nodes, and times are those of the log, so that the same log always gives the same
// events. A receiver that drops what it knows by Event.ID has exactly one START and one end of each run, step and node,
// whatever was repeated.
//
// Events follow version 2-0-2 of the specification, and each facet the version in its _schemaURL.
package lineage

import (
	"crypto/sha1" //nolint:gosec // version 5 of UUIDs is defined by it, and nothing is protected by it
	"encoding/hex"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Producer is the URI of the producer in every event and facet. It has no version, so that an event stays the same
// after an upgrade.
const Producer = "https://github.com/dvt-engine/dvt"

// State is the state that an event reports.
type State string

// States. A run has one Start, and then one of the others.
const (
	Start    State = "START"
	Complete State = "COMPLETE"
	Fail     State = "FAIL"
	Abort    State = "ABORT" // cancelled, skipped, or cut off by the end of its step
)

// Event is one OpenLineage RunEvent. Encode returns its JSON.
type Event struct {
	ID    string // the same for every repetition, and different for START and end
	State State
	Time  time.Time
	Seq   run.Seq   // of the event of the log that gave this one
	At    time.Time // when the store got that event
	// Manifest names the manifest of dbt from which the datasets are read. It is nil for runs and steps, and for nodes
	// whose step stored none.
	Manifest *run.ArtifactRef

	namespace string // of all jobs
	of        subject
	parent    *subject // of a step and of a node
	root      *subject
	failure   string // an error for people; "" when nothing failed
	node      *run.Node
	warehouse string // the namespace of the datasets; "" when the worker did not say it
}

// subject is a run of OpenLineage and its job.
type subject struct {
	run  string // a UUID
	name string // of the job
	kind string // of the job: DAG, TASK, or that of a node
}

// space is the namespace of the version 5 UUIDs.
const space = "\x6f\x2d\x3c\x1a\x7b\x0e\x5c\x44\x9d\x52\x0d\x76\x74\x2d\x6c\x69"

// uuidOf returns the UUID of version 5 of a name.
func uuidOf(name string) string {
	sum := sha1.Sum([]byte(space + name)) //nolint:gosec // see the import
	sum[6], sum[8] = sum[6]&0x0f|5<<4, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// RunID returns the id that OpenLineage has of a run.
func RunID(runID string) string { return uuidOf("run|" + runID) }

// StepID returns the id that OpenLineage has of a step.
func StepID(runID, stepID string) string {
	return uuidOf("step|" + runID + "|" + stepID)
}

// NodeID returns the id that OpenLineage has of a dbt node of a step. All attempts of the step share it, because an
// event tells how the node ended in the step.
func NodeID(runID, stepID, nodeID string) string {
	return uuidOf("node|" + runID + "|" + stepID + "|" + nodeID)
}

// Namespace returns the namespace of the jobs of a run.
func Namespace(id run.Identity) string {
	return "dvt://" + id.TenantID + "/" + id.ProjectID + "/" + id.EnvironmentID
}
