package reads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	maxTries     = 10       // engine attempts of one logical attempt
	maxTryRecord = 64 << 10 // bytes of a stored record that are read
)

// EvidenceStore reads the log and the state of runs.
type EvidenceStore interface {
	StateStore
	EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error)
}

// EvidenceReader reads what is known about the tries of steps and about their compensation. It is safe for concurrent
// use.
type EvidenceReader struct {
	rights *control.Rights
	store  EvidenceStore
	blobs  artifact.Blobs
}

// NewEvidenceReader makes an EvidenceReader.
func NewEvidenceReader(rights *control.Rights, store EvidenceStore, blobs artifact.Blobs) *EvidenceReader {
	return &EvidenceReader{rights: rights, store: store, blobs: blobs}
}

// StepEvidence is the evidence of one logical attempt of a step, and of the step's compensation.
type StepEvidence struct {
	Attempt      int // 0: none has started
	Engine       string
	Tries        []StepTry
	Compensation *StepCompensation // nil: no hook of the step has ended
}

// StepTry is one engine attempt. The log names the outcome of the last one. The rest is what the worker reported.
// Worker, Account and Stack are empty for callers who may not DEBUG the run.
type StepTry struct {
	EngineAttempt int
	Outcome       StepTryOutcome
	Recorded      bool // the worker kept a record
	engine.StoredTry
}

// StepTryOutcome is how an engine attempt ended, as the log and the records tell it.
type StepTryOutcome string

// Outcomes that no record has.
const (
	TryRunning StepTryOutcome = "RUNNING"
	// TryLost means that the worker reported no end, and the engine made another attempt.
	TryLost StepTryOutcome = "LOST"
)

// StepCompensation is the result of the hook of a step.
type StepCompensation struct {
	run.CompensationPayload
	At time.Time
}

// StepEvidence reads the evidence of an attempt; 0 means the latest. Errors: BAD_USER_INPUT, and NOT_FOUND, also for an
// unknown step or attempt.
func (s *EvidenceReader) StepEvidence(ctx context.Context, p authz.Principal, runID, stepID string, attempt int) (
	StepEvidence, error) {
	if attempt < 0 {
		return StepEvidence{}, control.BadInput([]plan.Violation{{Path: "attempt", Code: "RANGE",
			Message: "must be 1 or more"}})
	}
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return StepEvidence{}, err
	}
	l, err := s.store.Load(ctx, runID)
	if err != nil {
		return StepEvidence{}, control.Translate(err)
	}
	step, ok := l.State.Step(stepID)
	if !ok {
		return StepEvidence{}, control.Refuse(run.CodeNotFound, "The run has no step %q.", stepID)
	}
	out := StepEvidence{Attempt: cmp.Or(attempt, step.LogicalAttempt)}
	if l.State.Engine != nil {
		out.Engine = l.State.Engine.Provider
	}
	at := slices.IndexFunc(step.Attempts, func(a run.Attempt) bool { return a.LogicalAttempt == out.Attempt })
	switch {
	case at >= 0:
		id := artifact.AttemptID{TenantID: r.TenantID, RunID: runID, StepID: stepID, LogicalAttempt: out.Attempt}
		if out.Tries, err = s.tries(ctx, id, step.Attempts[at]); err != nil {
			return StepEvidence{}, control.Translate(err)
		}
		d, err := s.rights.Authz.Decide(p, authz.Debug, control.ObjectOf(r.Identity))
		if err != nil {
			return StepEvidence{}, control.Translate(err)
		}
		for i := range out.Tries {
			if t := &out.Tries[i]; !d.Allowed {
				t.Worker, t.Account, t.Stack = "", "", ""
			}
		}
	case attempt != 0:
		return StepEvidence{}, control.Refuse(run.CodeNotFound, "The step %q has no attempt %d.", stepID, attempt)
	}
	if out.Compensation, err = s.compensation(ctx, &l.State, stepID); err != nil {
		return StepEvidence{}, control.Translate(err)
	}
	return out, nil
}

// tries returns the engine attempts of an attempt, the oldest first. While the attempt runs, the log does not say how
// many there are: then the one after the last record runs.
func (s *EvidenceReader) tries(ctx context.Context, id artifact.AttemptID, a run.Attempt) ([]StepTry, error) {
	if a.StartedAt == nil || a.Reused != nil || a.Manual != nil || a.WaitingSince != nil {
		return nil, nil // nothing was executed
	}
	running := a.CompletedAt == nil
	most := maxTries
	if !running {
		most = min(a.EngineAttempt, maxTries)
	}
	out := make([]StepTry, 0, most)
	last := 0 // number of the last engine attempt with a record
	for n := 1; n <= most; n++ {
		t := StepTry{EngineAttempt: n, Outcome: TryLost}
		found, err := s.record(ctx, artifact.URI(artifact.Name(id, n, engine.TryFile)), &t.StoredTry)
		if err != nil {
			return nil, err
		}
		if found {
			t.Outcome, t.Recorded, last = StepTryOutcome(t.TryRecord.Outcome), true, n
		}
		out = append(out, t)
	}
	if running {
		if out = out[:min(last+1, most)]; len(out) > last {
			out[last].Outcome = TryRunning
		}
	} else if n := len(out); n == a.EngineAttempt && n > 0 {
		settle(&out[n-1], a)
	}
	if len(out) > 0 && out[0].StartedAt.IsZero() {
		out[0].StartedAt = *a.StartedAt
	}
	return out, nil
}

// settle makes the last try agree with the end of its attempt, because the log decides.
func settle(t *StepTry, a run.Attempt) {
	if t.EndedAt.IsZero() {
		t.EndedAt = *a.CompletedAt
	}
	switch {
	case a.Error != nil:
		t.Outcome, t.ErrorCode = StepTryOutcome(engine.TryFailed), a.Error.Code
	case a.Status == run.StepSuccess:
		t.Outcome, t.ErrorCode = StepTryOutcome(engine.TrySucceeded), ""
	}
}

// record reads the record at uri into t. found is false when there is none: the worker kept none, or it has expired.
func (s *EvidenceReader) record(ctx context.Context, uri string, t *engine.StoredTry) (found bool, err error) {
	body, err := s.blobs.Open(ctx, uri)
	if errors.Is(err, artifact.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(body, maxTryRecord))
	if errors.Is(err, artifact.ErrNotFound) {
		return false, nil
	}
	return err == nil && json.Unmarshal(raw, t) == nil, err
}

// compensation reads what became of the hook of a step. Hooks end after all steps, so it reads the log from its end.
func (s *EvidenceReader) compensation(ctx context.Context, st *run.State, stepID string) (*StepCompensation, error) {
	if !st.Compensating && st.Status != run.Failed {
		return nil, nil //nolint:nilnil // no hook has run
	}
	before := run.MaxSeq
	for scanned := 0; scanned < maxScan; {
		events, err := s.store.EventsBefore(ctx, st.RunID, before, store.MaxPage)
		if err != nil || len(events) == 0 {
			return nil, err
		}
		for _, e := range events {
			before = e.Seq
			switch {
			case e.StepID == stepID && e.Type.EndsHook():
				p, err := run.PayloadOf[run.CompensationPayload](e.Payload)
				return &StepCompensation{CompensationPayload: p, At: e.EmittedAt}, err
			case e.Type == run.RunCompensationStarted, e.Type == run.RunFailed && !hasCompensation(e):
				return nil, nil //nolint:nilnil // the hook has not ended, or there was none
			}
		}
		scanned += len(events)
	}
	return nil, nil //nolint:nilnil // too far back
}

// hasCompensation reports whether the end of a run followed hooks.
func hasCompensation(e run.Event) bool {
	p, err := run.PayloadOf[run.RunFailedPayload](e.Payload)
	return err != nil || len(p.Compensation) > 0 || p.CompensationOmitted > 0
}
