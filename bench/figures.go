package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func figures() []figure {
	return []figure{
		{"interp-step", "one step of a plan of 5,000 against one of a plan of 50", 1.5, interpStep},
		{"fold-event", "folding one event into a run of 1,000 steps, by 100 at a time, against a run of 10", 3, foldEvent},
		{"sqlite-append", "one appender, p50, against a raw insert of the same row", 6, sqliteAppend},
		{"authz-decision", "a decision with 10,000 principals against one with 10", 2, authzDecision},
	}
}

// machineRun drives a machine through a linear plan of n steps.
func machineRun(n int) error {
	steps := make([]plan.SkeletonStep, n)
	for i := range steps {
		steps[i] = plan.SkeletonStep{StepID: fmt.Sprintf("s%05d", i), TaskQueue: "q", Retry: plan.Retry{MaxAttempts: 1}, Timeout: time.Minute}
		if i > 0 {
			steps[i].Deps = []int{i - 1}
		}
	}
	m := interp.New(plan.Skeleton{Steps: steps}, interp.Config{Identity: run.Identity{RunID: "r"}})
	now, seq := time.Unix(1, 0), run.Seq(0)
	todo := []interp.Input{interp.Begin{At: now}}
	for len(todo) > 0 && !m.Done() {
		in := todo[0]
		todo = todo[1:]
		for _, e := range m.Step(in) {
			switch e := e.(type) {
			case interp.Append:
				r := interp.Recorded{At: now, Batch: e.Batch}
				for range e.Events {
					seq++
					r.Ends = append(r.Ends, interp.RecordedEvent{Seq: seq})
				}
				r.Head = seq
				todo = append(todo, r)
			case interp.Execute:
				todo = append(todo, interp.StepEnded{At: now, End: engine.StepEnd{
					StepID: steps[e.Ord].StepID, LogicalAttempt: e.LA, N: e.N, EngineAttempt: 1, Kind: engine.EndCompleted, StartedAt: now,
				}})
			}
		}
	}
	if !m.Done() {
		return fmt.Errorf("the machine stopped at seq %d", seq)
	}
	return nil
}

func interpStep(context.Context, string) (cost, floor measure, done func(), err error) {
	per := func(n, rounds int) measure {
		return func(context.Context) (time.Duration, error) {
			took, err := median(rounds, func(int) error { return machineRun(n) })
			return took / time.Duration(n), err
		}
	}
	return per(5000, 5), per(50, 500), func() {}, nil
}

// logOf is the events of a run with n steps that all complete.
func logOf(n int) []run.Event {
	id := run.Identity{RunID: "r", TenantID: "t", ProjectID: "p", EnvironmentID: "e", PlanID: "plan", PlanVersion: "1"}
	outline := make([]byte, 0, n*40)
	for i := range n {
		if i > 0 {
			outline = append(outline, ',')
		}
		outline = fmt.Appendf(outline, `{"stepId":"s%05d","type":"NOOP"}`, i)
	}
	at := time.Unix(1, 0)
	evs := []run.Event{{Identity: id, Type: run.RunStarted, Seq: 1, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: at, PersistedAt: at, Payload: fmt.Appendf(nil, `{"steps":[%s]}`, outline)}}
	for i := range n {
		for _, t := range []run.EventType{run.StepStartedEvent, run.StepCompletedEvent} {
			evs = append(evs, run.Event{
				Identity: id, Type: t, Seq: run.Seq(len(evs) + 1), StepID: fmt.Sprintf("s%05d", i), LogicalAttempt: 1, EngineAttempt: 1,
				EmittedAt: at, PersistedAt: at, Payload: []byte(`{}`),
			})
		}
	}
	return evs
}

func foldEvent(context.Context, string) (cost, floor measure, done func(), err error) {
	per := func(steps, rounds int) measure {
		evs := logOf(steps)
		return func(context.Context) (time.Duration, error) {
			took, err := median(rounds, func(int) error {
				s := run.State{Header: run.Header{Identity: evs[0].Identity, Status: run.Pending, Rev: run.ReducerRev}}
				for at := 0; at < len(evs); at += 100 {
					s, _, _ = run.Fold(s, evs[at:min(at+100, len(evs))])
				}
				if s.Seq != run.Seq(len(evs)) {
					return fmt.Errorf("folded to %d of %d", s.Seq, len(evs))
				}
				return nil
			})
			return took / time.Duration(len(evs)), err
		}
	}
	return per(1000, 20), per(10, 500), func() {}, nil
}

func sqliteAppend(ctx context.Context, dir string) (cost, floor measure, done func(), err error) {
	s, err := sqlite.Open(ctx, filepath.Join(dir, "dvt.db"), sqlite.Options{})
	if err != nil {
		return nil, nil, nil, err
	}
	raw, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "raw.db")+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, nil, nil, err
	}
	raw.SetMaxOpenConns(1)
	done = func() { _ = raw.Close(); _ = s.Close() }
	if _, err = raw.ExecContext(ctx, `CREATE TABLE event (run_id TEXT, seq INTEGER, key TEXT UNIQUE, body TEXT, PRIMARY KEY (run_id, seq))`); err != nil {
		return nil, nil, done, err
	}
	id := run.Identity{RunID: "bench", TenantID: "t", ProjectID: "p", EnvironmentID: "e", PlanID: "plan", PlanVersion: "1"}
	_, _, err = s.CreateRun(ctx, store.NewRun{Run: store.Run{Identity: id, RequestKey: run.RequestKey("t", "p", "e", "plan", "1", "bench"), RequestID: "bench"}})
	if err != nil {
		return nil, nil, done, err
	}
	step, row := 0, 0
	payload := []byte(`{}`)
	cost = func(ctx context.Context) (time.Duration, error) {
		return median(300, func(int) error {
			step++
			_, err := s.Append(ctx, store.Append{RunID: id.RunID, Events: []run.Draft{{
				Type: run.StepStartedEvent, StepID: fmt.Sprintf("s%d", step), LogicalAttempt: 1, EngineAttempt: 1,
				EmittedAt: time.Now(), EmittedBy: run.ByEngine, Payload: payload,
			}}})
			return err
		})
	}
	floor = func(ctx context.Context) (time.Duration, error) {
		return median(300, func(int) error {
			row++
			_, err := raw.ExecContext(ctx, `INSERT INTO event VALUES (?, ?, ?, ?)`, id.RunID, row, fmt.Sprint(row), payload)
			return err
		})
	}
	return cost, floor, done, nil
}

func authzDecision(context.Context, string) (cost, floor measure, done func(), err error) {
	per := func(n int) (measure, error) {
		accounts := make([]authz.Account, n)
		for i := range accounts {
			accounts[i] = authz.Account{
				ID: fmt.Sprintf("p%d", i), TenantID: "t", TokenSHA256: fmt.Sprintf("%064x", i+1),
				Grants: []authz.Grant{{Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"}},
			}
		}
		d, err := authz.NewDirectory(accounts, time.Now)
		if err != nil {
			return nil, err
		}
		a, err := authz.New(authz.DefaultPolicy(), d)
		if err != nil {
			return nil, err
		}
		o := authz.Object{TenantID: "t", ProjectID: "p", EnvironmentID: "e"}
		return func(context.Context) (time.Duration, error) {
			const calls = 1000
			took, err := median(50, func(i int) error {
				for k := range calls {
					if _, err := a.Decide(authz.Principal{ID: accounts[(i+k)%n].ID, TenantID: "t"}, authz.Pause, o); err != nil {
						return err
					}
				}
				return nil
			})
			return took / calls, err
		}, nil
	}
	if cost, err = per(10000); err != nil {
		return nil, nil, nil, err
	}
	floor, err = per(10)
	return cost, floor, func() {}, err
}
