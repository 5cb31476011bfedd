package reads

import (
	"context"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// StepLogQuery asks for lines of the log of one logical attempt.
type StepLogQuery struct {
	RunID, StepID string
	Attempt       int // 0 means the latest
	FromLine      int64
	First         int
	Find          string
	ErrorLine     bool // compute StepLog.ErrorLine
}

// StepLog has lines of the log of one logical attempt.
type StepLog struct {
	RunID, StepID string
	Attempt       int
	artifact.Page
	Matches      []int64
	TotalMatches int64
	// ErrorLine is the line at which to start reading why the attempt failed (artifact.Logs). It is 0 when the attempt
	// has not failed or when it was not requested.
	ErrorLine int64
}

// StateStore reads the states of runs.
type StateStore interface {
	Load(ctx context.Context, runID string) (store.Loaded, error)
}

// LogReader reads the logs of attempts. It is safe for concurrent use.
type LogReader struct {
	rights *control.Rights
	store  StateStore
	Logs   artifact.Logs
}

// NewLogReader makes a LogReader.
func NewLogReader(rights *control.Rights, store StateStore, logs artifact.Logs) *LogReader {
	return &LogReader{rights: rights, store: store, Logs: logs}
}

// Limits of reading step logs.
const (
	MaxLogLines   = 1000
	maxLogMatches = 1000
	maxFindBytes  = 200
)

// StepLog reads lines of the log of one logical attempt. The result is empty for an attempt that has printed nothing.
// Errors: NOT_FOUND, also for an unknown step; BAD_USER_INPUT.
func (s *LogReader) StepLog(ctx context.Context, p authz.Principal, in StepLogQuery) (StepLog, error) {
	a, err := s.Attempt(ctx, p, &in)
	if err != nil {
		return StepLog{}, err
	}
	out := StepLog{RunID: in.RunID, StepID: in.StepID, Attempt: in.Attempt}
	if out.Page, err = s.Logs.Read(ctx, a.Id, in.FromLine, in.First); err != nil {
		return StepLog{}, control.Translate(err)
	}
	if in.Find != "" {
		if out.Matches, out.TotalMatches, err = s.Logs.Find(ctx, a.Id, in.Find, maxLogMatches); err != nil {
			return StepLog{}, control.Translate(err)
		}
	}
	if in.ErrorLine && a.failed > 0 {
		if out.ErrorLine, err = s.Logs.ErrorLine(ctx, a.Id, a.failed, a.named); err != nil {
			return StepLog{}, control.Translate(err)
		}
	}
	return out, nil
}

// printing is a logical attempt with the state of its run.
type printing struct {
	Run    store.Run
	Id     artifact.AttemptID
	Seq    run.Seq // head of the run's log when it was read
	Epoch  string  // epoch of the store at that time
	Done   bool    // the attempt will print nothing more
	failed int     // engine attempt that failed; 0 for none
	named  int64   // the line that its failure names, within the engine attempt; 0 for none
}

// Attempt checks the query, fills in its defaults, and finds the attempt. Errors: BAD_USER_INPUT, NOT_FOUND.
func (s *LogReader) Attempt(ctx context.Context, p authz.Principal, in *StepLogQuery) (out printing, err error) {
	var vs []plan.Violation
	check := func(ok bool, path, message string) {
		if !ok {
			vs = append(vs, plan.Violation{Path: path, Code: "RANGE", Message: message})
		}
	}
	if in.FromLine == 0 {
		in.FromLine = 1
	}
	if in.First == 0 {
		in.First = 200
	}
	check(in.FromLine > 0, "fromLine", "must be 1 or more")
	check(in.First > 0 && in.First <= MaxLogLines, "first", "must be from 1 to 1000")
	check(in.Attempt >= 0, "attempt", "must be 1 or more")
	check(len(in.Find) <= maxFindBytes, "find", "must be at most 200 bytes")
	if len(vs) > 0 {
		return out, control.BadInput(vs)
	}
	if out.Run, err = s.rights.GetVisible(ctx, p, authz.Read, in.RunID); err != nil {
		return out, err
	}
	l, err := s.store.Load(ctx, in.RunID)
	if err != nil {
		return out, control.Translate(err)
	}
	step, ok := l.State.Step(in.StepID)
	if !ok {
		return out, control.Refuse(run.CodeNotFound, "The run has no step %q.", in.StepID)
	}
	if in.Attempt == 0 {
		in.Attempt = max(1, step.LogicalAttempt)
	}
	out.Id = artifact.AttemptID{TenantID: out.Run.TenantID, RunID: in.RunID, StepID: in.StepID,
		LogicalAttempt: in.Attempt}
	out.Seq, out.Epoch, out.Done = l.State.Seq, l.Epoch, HasAttemptEnded(l.State.Status, step, in.Attempt)
	for _, a := range step.Attempts {
		if a.LogicalAttempt == in.Attempt && a.Status == run.StepFailed {
			out.failed, out.named = a.EngineAttempt, 0
			if a.Error != nil {
				out.named = a.Error.Line
			}
		}
	}
	return out, nil
}

// HasAttemptEnded reports whether an attempt of a step will print nothing more, in a run with the status of.
func HasAttemptEnded(of run.Status, step *run.Step, attempt int) bool {
	if of.Terminal() {
		return true
	}
	for _, a := range step.Attempts {
		if a.LogicalAttempt == attempt {
			return a.Status.Terminal()
		}
	}
	return attempt < step.LogicalAttempt
}
