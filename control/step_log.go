package control

import (
	"context"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits of reading step logs.
const (
	maxLogLines   = 1000
	maxLogMatches = 1000
	maxFindBytes  = 200
)

// StepLog reads lines of what one logical attempt printed; an attempt that has
// not printed anything has none.
func (s *Service) StepLog(ctx context.Context, p authz.Principal, in StepLogQuery) (StepLog, error) {
	_, id, _, err := s.attempt(ctx, p, &in)
	if err != nil {
		return StepLog{}, err
	}
	out := StepLog{RunID: in.RunID, StepID: in.StepID, Attempt: in.Attempt}
	if out.Lines, out.Total, err = s.cfg.Logs.Read(ctx, id, in.FromLine, in.First); err != nil {
		return StepLog{}, translate(err)
	}
	if in.Find != "" {
		if out.Matches, out.TotalMatches, err = s.cfg.Logs.Find(ctx, id, in.Find, maxLogMatches); err != nil {
			return StepLog{}, translate(err)
		}
	}
	return out, nil
}

// attempt checks the query, fills in its defaults and names the log. done
// reports whether the attempt is over.
func (s *Service) attempt(ctx context.Context, p authz.Principal, in *StepLogQuery) (r store.Run, id artifact.AttemptID, done bool, err error) {
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
	check(in.First > 0 && in.First <= maxLogLines, "first", "must be from 1 to 1000")
	check(in.Attempt >= 0, "attempt", "must be 1 or more")
	check(len(in.Find) <= maxFindBytes, "find", "must be at most 200 bytes")
	if len(vs) > 0 {
		return r, id, false, badInput(vs)
	}
	if r, err = s.visible(ctx, p, authz.Read, in.RunID); err != nil {
		return r, id, false, err
	}
	l, err := s.cfg.Store.Load(ctx, in.RunID)
	if err != nil {
		return r, id, false, translate(err)
	}
	step, ok := l.State.Step(in.StepID)
	if !ok {
		return r, id, false, refuse(run.CodeNotFound, "The run has no step %q.", in.StepID)
	}
	if in.Attempt == 0 {
		in.Attempt = max(1, step.LogicalAttempt)
	}
	id = artifact.AttemptID{TenantID: r.TenantID, RunID: in.RunID, StepID: in.StepID, LogicalAttempt: in.Attempt}
	return r, id, attemptDone(l.State, step, in.Attempt), nil
}

// attemptDone reports whether an attempt will print no more.
func attemptDone(st run.State, step *run.Step, attempt int) bool {
	for _, a := range step.Attempts {
		if a.LogicalAttempt == attempt {
			return a.Status.Terminal() || st.Status.Terminal()
		}
	}
	return st.Status.Terminal() || attempt < step.LogicalAttempt
}
