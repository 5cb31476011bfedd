package temporal

import (
	"context"
	"fmt"
	"iter"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
)

// Captured is the history of one closed execution of a run.
type Captured struct {
	RunID, EngineRunID string
	Events             int
	JSON               []byte // that Replay reads
}

// Histories reads the histories of executions of runs that closed since a time, in the order of Temporal's list. It
// reads none that skip names. It decrypts nothing. The loop ends it. Errors: engine.ErrUnavailable.
func (e *Engine) Histories(ctx context.Context, since time.Time,
	skip func(runID, engineRunID string) bool) iter.Seq2[Captured, error] {
	query := fmt.Sprintf("WorkflowType = '%s' AND CloseTime >= '%s'", workflowName, since.UTC().Format(time.RFC3339Nano))
	return func(yield func(Captured, error) bool) {
		for d, err := range e.list(ctx, query) {
			if err != nil {
				yield(Captured{}, err)
				return
			}
			out := Captured{RunID: d.Identity.RunID, EngineRunID: d.Ref.EngineRunID}
			if d.Open || d.Foreign != "" || skip(out.RunID, out.EngineRunID) {
				continue
			}
			h := &historypb.History{}
			events := e.client.GetWorkflowHistory(ctx, d.Ref.WorkflowID, out.EngineRunID, false,
				enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for events.HasNext() {
				event, err := events.Next()
				if err != nil {
					yield(Captured{}, translate(err))
					return
				}
				h.Events = append(h.Events, event)
			}
			if out.JSON, err = (temporalproto.CustomJSONMarshalOptions{}).Marshal(h); err != nil {
				err = fmt.Errorf("temporal: the history of %s: %w", d.Ref.WorkflowID, err)
			}
			if out.Events = len(h.Events); !yield(out, err) || err != nil {
				return
			}
		}
	}
}
