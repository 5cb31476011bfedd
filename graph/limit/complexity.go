package limit

import (
	"context"
	"time"

	"github.com/99designs/gqlgen/complexity"
	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/exec"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// These are the costs of fields without an argument for their size: the assumed numbers of rows of lists, and the costs
// of reads.
const (
	stepsOfRun        = 50
	reportsOfWorkers  = 100
	attemptsOfStep    = 2
	triesOfAttempt    = 2
	secretsOfStep     = 5
	artifactsOfThing  = 3
	rowsOfFrame       = 50
	eventsOfFrame     = 100
	inboxReads        = 10
	placeReads        = 10
	countReads        = 1000
	pastReads         = 10
	diagnosisCalls    = 50
	causesOfRun       = 8
	logReads          = 50
	fileReads         = 50
	searchReads       = 500
	runsOfPlan        = 30
	usesOfPlan        = 10
	attemptsOfHistory = 50
	notesOfRun        = 100
	viewsOfViewer     = 100
	silencesOfTenant  = 100
	alertsOfIncident  = 100
	attentionItems    = 50
	destinationsHere  = 20
	ordersOfThing     = 5
	previewedReplay   = 20_000 // it reads the log for up to ten seconds
	policyEffect      = 20_000 // up to half a second of CPU time
)

// Weights returns the cost of each field. A list costs the cost of one row times the maximum number of its rows.
func Weights() exec.ComplexityRoot {
	var c exec.ComplexityRoot
	c.Query.Runs = func(child int, first *int, _ *string, last *int, _ *string, _ *model.RunFilter,
		_ *model.RunOrder) int {
		return page(first, last, 50) * child
	}
	c.Query.StepLog = func(child int, _, _ string, _, _, first *int, _ *string) int {
		return page(first, nil, 200) * child
	}
	c.Query.ManualTasks = func(child int, _ *string, first *int, _ *string) int { return page(first, nil, 50) * child }
	c.Query.LogSearch = func(child int, _ model.LogSearchInput, _ string, first *int, _ *string) int {
		return page(first, nil, 20)*child + searchReads
	}
	c.Query.Alerts = func(child int, _ *model.AlertFilter, first *int, _ *string) int {
		return page(first, nil, 50) * child
	}
	c.Query.Erasures = func(child int, first *int, _ *string) int { return page(first, nil, 20) * child }
	c.Query.PreviewErasure = func(child int, _ *string) int { return countReads + child }
	c.Query.Incidents = func(child int, _ *bool, _ *string, first *int, _ *string) int {
		return page(first, nil, 50) * child
	}
	c.Query.IncidentAlerts = func(child int, _ string) int { return alertsOfIncident * child }
	c.Query.Destinations = times(destinationsHere)
	c.Destination.Orders = times(ordersOfThing)
	c.Query.DeadDeliveries = func(child int, _ string, first *int, _ *string) int {
		return page(first, nil, 50) * child
	}
	c.Query.PreviewReplay = func(child int, _ string, _ time.Time, _ *time.Time, _ *model.DeliveryFilter) int {
		return previewedReplay + child
	}
	c.Query.AlertSilences = times(silencesOfTenant)
	c.Query.DeadLetters = func(child int, _ *string, _ *bool, first *int, _ *string) int {
		return page(first, nil, 50) * child
	}
	c.Query.PolicyHistory = func(child int, first *int, _ *string) int { return page(first, nil, 20) * child }
	c.Query.RetentionHistory = func(child int, first *int, _ *string) int { return page(first, nil, 20) * child }
	c.Query.LegalHolds = func(child int, _ *bool, first *int, _ *string) int { return page(first, nil, 50) * child }
	c.Query.QuotaHistory = func(child int, first *int, _ *string) int { return page(first, nil, 20) * child }
	c.Query.Tokens = func(child int, _, _ *bool, first *int, _ *string) int { return page(first, nil, 50) * child }
	c.Query.Audit = func(child int, _ *model.AuditFilter, _ *bool, first *int, _ *string) int {
		return page(first, nil, 50) * child
	}
	c.Query.AuditCheck = func(child int, _ *string) int { return control.CheckedObjects * child }
	c.RedriveDeadLettersPayload.Results = times(reads.MaxRedrive)
	c.Viewer.Signals = func(child int, first *int, _ *bool) int { return page(first, nil, 20) * child }
	c.Viewer.Decisions = func(child int, first *int) int { return page(first, nil, 20) * child }
	c.Run.Events = func(child int, first *int, _ *run.Seq, last *int, _ *run.Seq, _ []string) int {
		return page(first, last, 100) * child
	}
	c.Run.Signals = func(child int, first *int, _ *string) int { return page(first, nil, 50) * child }
	c.Query.Workers = times(reportsOfWorkers)
	c.Run.Steps = times(stepsOfRun)
	c.RunDelta.Steps = times(stepsOfRun)
	c.RunDiff.Steps = times(stepsOfRun)
	c.RunDiff.Decisions = times(eventsOfFrame)
	c.Query.Queue = func(child int, _ *string, first *int, _ *string) int { return page(first, nil, 50) * child }
	c.Query.Approvals = func(child int, first *int, _ *string) int { return page(first, nil, 50) * child }
	c.Query.Bulks = func(child int, first *int, _ *string) int { return page(first, nil, 20) * child }
	c.Bulk.Rows = func(child int, _ *model.BulkOutcome, _ *bool, first *int, _ *string) int {
		return page(first, nil, 50) * child
	}
	c.BulkUpdate.Rows = times(rowsOfFrame)
	c.Step.Attempts = times(attemptsOfStep)
	c.Run.Artifacts = times(artifactsOfThing)
	c.Step.Artifacts = times(artifactsOfThing)
	c.StepAttempt.Artifacts = times(artifactsOfThing)
	c.RunListUpdate.Runs = times(rowsOfFrame)
	c.InboxUpdate.Changed = times(rowsOfFrame)
	c.InboxUpdate.Removed = times(rowsOfFrame)
	c.Step.DbtNodes = func(child int, _ []string, _, first *int, _ *string) int {
		return fileReads + page(first, nil, 50)*child
	}
	c.Step.Nodes = func(child int, _ []model.NodeStatus, _ *int, _ *run.Seq, first *int, _ *string) int {
		return fileReads + page(first, nil, 50)*child
	}
	c.Step.Output = func(child int, _ *int) int { return fileReads + child }
	c.Run.ArtifactList = func(child int, _ *string, _ []string, first *int, _ *string) int {
		return page(first, nil, 50) * child
	}
	c.StepOutput.ArtifactRefs = times(artifactsOfThing)
	c.Step.Evidence = func(child int, _ *int) int { return fileReads + child }
	c.Step.Secrets = func(child int, _ *int) int { return countReads + secretsOfStep*child }
	c.Query.SecretAccess = func(child int, _ *model.SecretAccessFilter, first *int, _ *string) int {
		return page(first, nil, 50) * child
	}
	c.CheckSecretsPayload.Secrets = times(secretsOfStep)
	c.StepEvidence.Tries = times(triesOfAttempt)
	c.Run.Diagnosis = func(child int) int { return diagnosisCalls + causesOfRun*child }
	c.Run.Forecast = func(child int) int { return pastReads + child }
	c.Run.ForecastGap = func(child int) int { return pastReads + child }
	c.Run.LastGreen = func(child int) int { return pastReads + child }
	c.Query.RunHistogram = func(child int, _ *model.RunFilter, _, _ time.Time, buckets int) int {
		return countReads + min(max(buckets, 1), 200)*child
	}
	c.Query.Plans = func(child int, _, _, _ *string, first *int, _ *string) int { return page(first, nil, 20) * child }
	c.PlanSummary.Runs = times(runsOfPlan)
	c.Query.Plan = func(child int, _, _, _ string, _ *int) int { return countReads + child }
	c.PlanHistory.Versions = times(usesOfPlan)
	c.PlanHistory.Starters = times(usesOfPlan)
	c.PlanGrid.Runs = times(runsOfPlan)
	c.PlanGrid.Steps = times(stepsOfRun)
	c.PlanGridStep.Cells = times(runsOfPlan)
	c.Query.PlanStep = func(child int, _, _, _, _ string, _ *int) int { return countReads + child }
	c.PlanStepHistory.Attempts = times(attemptsOfHistory)
	c.PlanStepHistory.Failures = times(usesOfPlan)
	c.Query.CompareRuns = func(child int, _, _ string) int { return countReads + child }
	c.RunComparison.Plan = func(child int) int { return 2*countReads + child }
	c.RunComparison.Steps = times(stepsOfRun)
	c.Run.PlanDiff = func(child int) int { return 2*countReads + child }
	c.PlanDiff.Steps = times(stepsOfRun)
	c.Step.Inputs = func(child int, _ *int) int { return countReads + child }
	c.Run.PlanDocument = func(int) int { return countReads }
	c.RunError.LogLine = func(int) int { return logReads }
	c.Viewer.Places = func(child int, first *int) int { return placeReads + page(first, nil, 200)*child }
	c.Query.HealthHistory = func(child int, last *int) int { return page(nil, last, health.MaxHealthSamples) * child }
	c.Viewer.InboxCount = func(int) int { return inboxReads }
	c.Viewer.AttentionCount = func(int) int { return 2 * inboxReads }
	c.Query.Attention = func(child int, first *int, _ *string) int { return 2*inboxReads + page(first, nil, 50)*child }
	c.AttentionUpdate.Items = times(attentionItems)
	c.Query.RunCounts = func(_ int, filters []model.RunFilter) int { return countReads / 10 * max(1, len(filters)) }
	c.Query.RunTags = func(child int, ids []string) int { return 1 + len(ids)*child }
	c.Query.BulkRunCounts = func(child int, ids []string) int { return countReads + len(ids)*child }
	c.Query.PreviewPolicy = func(child int, _ model.PolicyInput) int { return policyEffect + child }
	c.Mutation.SetPolicy = func(child int, _ model.SetPolicyInput) int { return policyEffect + child }
	c.Query.PreviewRetention = func(child int, _ model.RetentionDaysInput) int { return countReads + child }
	c.Mutation.SetRetention = func(child int, _ model.SetRetentionInput) int { return countReads + child }
	c.Query.PreviewQuota = func(child int, _ model.QuotaSettingsInput) int { return countReads + child }
	c.Query.RunNotes = func(child int, _ string) int { return 1 + notesOfRun*child }
	c.Query.SavedViews = times(viewsOfViewer)
	c.RunEventUpdate.Events = times(eventsOfFrame)
	return c
}

func times(n int) func(int) int {
	return func(child int) int { return 1 + n*child }
}

func page(first, last *int, def int) int {
	switch {
	case first != nil && *first > 0:
		return min(*first, 1000)
	case last != nil && *last > 0:
		return min(*last, 1000)
	}
	return def
}

// Cost rejects a valid operation whose cost is above Limit. It is safe for concurrent use.
type Cost struct {
	Schema graphql.ExecutableSchema
	Limit  int
}

var _ graphql.OperationContextMutator = Cost{}

// ExtensionName implements graphql.HandlerExtension.
func (Cost) ExtensionName() string { return "CostLimit" }

// Validate implements graphql.HandlerExtension.
func (Cost) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext implements graphql.OperationContextMutator.
func (c Cost) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if cost := complexity.Calculate(ctx, c.Schema, op.Operation, op.Variables); cost > c.Limit {
		return ErrorOf(run.CodeQueryTooComplex, "The operation costs %d", cost, c.Limit)
	}
	return nil
}
