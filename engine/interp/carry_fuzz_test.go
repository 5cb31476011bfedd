package interp_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// FuzzResume resumes machines from arbitrary JSON. Resume returns an error for a state that it cannot read, and no
// machine panics.
func FuzzResume(f *testing.F) {
	sk := graph(12, 3)
	sk.Steps[4].Type, sk.Steps[4].WaitTimeout = "MANUAL", time.Hour
	sk.Steps[0].CompensationQueue = "tq-control"
	cfg := interp.Config{Identity: testIdentity, Policy: basePolicy, RotateAfter: 2}
	seed := func(w *world) {
		b, err := json.Marshal(w.m.Carry())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	w := newRotatingWorld(f, sk, basePolicy, 2).start()
	seed(w)
	w.succeed("s0001")
	seed(w)
	w.fail("s0002", "BROKEN")
	w.signal(run.RetryStep, "A", "s0002")
	seed(w)
	w.sendBack("s0002", engine.ReturnThrottled, time.Second)
	w.begin("s0003")
	w.forge("s0003", engine.ReturnAbandoned)
	seed(w)
	w.signal(run.Pause, "B", "")
	seed(w)
	f.Add([]byte(`{"v":1,"execution":-3,"batches":-1,"signal":9,"latched":[1,18446744073709551615,2],"steps":"AwEBBgs="}`))
	f.Add([]byte(`{"v":1,"steps":"AAYL","undoing":true,"undo":1,"undone":"AQE="}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c interp.CarriedState
		if json.Unmarshal(b, &c) != nil {
			return
		}
		m, err := interp.Resume(sk, cfg, c)
		if err != nil {
			return
		}
		batch := 0
		step := func(in interp.Input) {
			for _, e := range m.Step(in) {
				switch e := e.(type) {
				case interp.Append:
					batch = e.Batch
				case interp.Execute:
					_ = sk.Steps[e.Ord]
				}
			}
		}
		step(interp.Init{At: epoch})
		for i := range 6 {
			step(interp.Signalled{At: epoch, Signals: []engine.Signal{
				{No: int64(i + 1), ID: "x", Type: run.RetryStep, StepID: "s0002"}, {No: int64(i + 2), ID: "y", Type: run.Resume},
			}})
			step(interp.Recorded{At: epoch, Batch: batch, Ends: []interp.RecordedEvent{{Seq: 1}, {Seq: 2}}})
			step(interp.Fired{At: epoch.Add(time.Hour), Timer: []interp.Timer{interp.TimerDrain, interp.TimerManual,
				interp.TimerRetryWindow, interp.TimerDelay}[i%4]})
			step(interp.Returned{At: epoch, Return: engine.Return{StepID: "s0002", LogicalAttempt: 1, N: 1,
				Kind: []engine.ReturnKind{engine.ReturnParked, engine.ReturnLost}[i%2]}})
			step(interp.HookReturned{At: epoch, Return: engine.Return{StepID: "s0001", N: 1, Kind: engine.ReturnLost}})
			step(interp.Observed{At: epoch, Tail: engine.Tail{Seq: 9, Head: store.Head{LastSeq: 9, SignalNo: 9},
				Events: []engine.LogEvent{
					{Seq: run.Seq(i), Type: run.StepStartedEvent, StepID: "s0003", LogicalAttempt: 1},
					{Seq: run.Seq(2 * i), Type: run.StepCompletedEvent, StepID: "s0002", LogicalAttempt: 1},
				}}})
			step(interp.Signalled{At: epoch})
		}
		if c := m.Carry(); m.HasRotated() {
			if _, err := interp.Resume(sk, cfg, c); err != nil {
				t.Fatalf("Resume returns %v for the state of a machine that rotated, want no error", err)
			}
		}
	})
}
