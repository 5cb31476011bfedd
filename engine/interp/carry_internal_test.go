package interp

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// TestCarry_KnowsEveryField fails when somebody adds a field to the machine and does not decide how the next machine
// gets it.
// contract: T109
func TestCarry_KnowsEveryField(t *testing.T) {
	t.Parallel()
	known := map[string]string{
		"Machine": "sk cfg ords next now latest out status begun done schedule record signals pause failure stop rotation " +
			"steps manual delays compensation",
		// ready, prioritised and left follow from the steps; nothing is in flight
		"schedule": "ready prioritised inFlight width left gateOpenings",
		// a machine with queue, sent, closing or alone is not idle
		"record": "queue batches sent gate head running seen known behind wanted needed reading signalNo partial window " +
			"orphans gateClosed closing alone",
		// the next machine reads waiting and missing signals again
		"inbox": "last seen waiting fetching after inconsistent lookUp reread",
		// a machine with an unexplained pause or entries held back is not idle
		"pause": "on recorded epoch resumedEpoch resumeID drainAt overdue resuming unexplained heldBack " +
			"pendingRetries interrupted",
		"failure":      "count arming generation windowAt expired final toStop",
		"stop":         "signalID",
		"rotation":     "dispatched from pressed hard patience over", // each execution starts with its own
		"manual":       "opening open due firesAt",                   // follow from the steps
		"delays":       "withoutToken tokens running batch gap next firesAt",
		"compensation": "succeeded started todo inFlight n spent due done",
		// only a step in flight has gateOpenings, passes and stopRequested, and only one of Restore has retried
		"step": "status stage attempt n missing signalID signalNo signalFor generation retried passes begun spent vanished " +
			"due forToken waitAttempt waitSince waitEnd gateOpenings stopRequested failing pendingRetry failedSeq failed waitEnds",
	}
	for _, of := range []any{Machine{}, schedule{}, record{}, inbox{}, pause{}, failure{}, stop{}, rotation{}, manual{},
		delays{}, compensation{}, step{}} {
		typ := reflect.TypeOf(of)
		var has []string
		for i := range typ.NumField() {
			has = append(has, typ.Field(i).Name)
		}
		if want := strings.Fields(known[typ.Name()]); !slices.Equal(slices.Sorted(slices.Values(has)),
			slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has the fields\n%q, the test knows\n%q: carry the new ones (carry.go), or write here why not",
				typ.Name(), has, want)
		}
	}
}

// TestCarry_WorstStatesOfTheLargestPlanFit measures the size of the carried state.
// contract: T109
func TestCarry_WorstStatesOfTheLargestPlanFit(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	nos := r.Perm(16_000)
	seqs := r.Perm(plan.MaxSteps)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	long := strings.Repeat("x", 128)
	failed := func(st *step, i int) {
		st.status, st.failedSeq = run.StepFailed, run.Seq(1_000_000+seqs[i])
		st.failed = run.FailurePayload{
			ErrorCode: fmt.Sprintf("CODE_%d", i), ErrorMessage: strings.Repeat(fmt.Sprintf("<%d>", i), 1000),
			FailureCategory: run.CategoryPlatform, Retryable: i%2 == 0,
		}
	}
	for name, of := range map[string]func(m *Machine, st *step, i int){
		"pending": func(*Machine, *step, int) {},
		"retrying": func(m *Machine, st *step, i int) {
			failed(st, i)
			st.stage, st.attempt, st.n, st.signalID, st.signalNo, st.generation = ready, 100+i%20, 1+i%100, long,
				int64(nos[i]+1), i%2
		},
		"failing, with two signals each that wait for RunResumed": func(m *Machine, st *step, i int) {
			failed(st, i)
			st.stage, st.attempt, st.failing, st.pendingRetry = settled, 2+i%100, true, true
			for j := range 2 {
				m.pause.pendingRetries = append(m.pause.pendingRetries, engine.Signal{No: int64(i*3 + j + 1), ID: long,
					Type: run.RetryStep})
			}
		},
		"waiting for people after a retry": func(m *Machine, st *step, i int) {
			st.stage, st.attempt, st.signalID, st.signalNo, st.waitEnds = open, 2+i%100, long, int64(nos[i]+1),
				at.Add(time.Duration(r.Int64N(int64(30*24*time.Hour))))
			m.keepOpen(run.Ord(i))
		},
		"retrying, every other one without a token": func(m *Machine, st *step, i int) {
			failed(st, i)
			st.stage, st.attempt, st.n, st.signalID, st.signalNo, st.generation = ready, 100+i%20, 1+i%100, long,
				int64(nos[i]+1), i%2
			if m.now = at.Add(time.Duration(i) * 10 * time.Millisecond); i%2 == 0 {
				m.delay(run.Ord(i), time.Duration(1+i%50)*time.Second, true)
			}
		},
		"retrying, all declined, and a hundred of them running": func(m *Machine, st *step, i int) {
			failed(st, i)
			st.attempt, st.n, st.signalID, st.signalNo, st.generation = 100+i%20, 1+i%100, long, int64(nos[i]+1), i%2
			st.begun, st.vanished, m.now = i%50 == 0, 9, at.Add(time.Duration(i)*10*time.Millisecond)
			m.delay(run.Ord(i), time.Duration(1+i%50)*time.Second, false)
		},
		"undone": func(m *Machine, st *step, i int) {
			st.status, st.stage, st.attempt = run.StepSuccess, settled, 2+i%100
			m.compensation.succeeded = append(m.compensation.succeeded, success{run.Ord(i), run.Seq(1_000_000 + seqs[i])})
			m.compensation.started = true
			m.compensation.done = append(m.compensation.done, run.CompensationPayload{
				StepID: m.sk.Steps[i].StepID, Attempts: 1 + i%100, ErrorCode: fmt.Sprintf("CODE_%d", i),
				ErrorMessage: strings.Repeat("\"", 512),
			})
		},
	} {
		m := New(largest(), Config{})
		m.status = run.Running
		m.signals.last, m.record.batches = 16_000, 1_000_000
		m.stop.signalID, m.pause.resumeID, m.pause.drainAt, m.failure.windowAt = long, long, at, at
		for i := range m.steps {
			of(m, &m.steps[i], i)
		}
		c := m.Carry()
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, %d of them errors", name, len(b), errorBytes(c))
		if err := c.Fits(); err != nil {
			t.Errorf("%s: Fits returns %v, want no error", name, err)
		}
	}
}

// contract: T109
func TestFits_AnErrorNamesTheLimit(t *testing.T) {
	t.Parallel()
	c := CarriedState{Steps: make([]byte, 50<<10)}
	if err := c.Fits(); err == nil || !strings.Contains(err.Error(), "at most 65536 are allowed") {
		t.Fatalf("Fits returns %v, want an error that names the limit", err)
	}
}

func errorBytes(c CarriedState) int {
	b, _ := json.Marshal(c.Errors)
	return len(b)
}

func largest() plan.Skeleton {
	sk := plan.Skeleton{Steps: make([]plan.SkeletonStep, plan.MaxSteps)}
	for i := range sk.Steps {
		sk.Steps[i] = plan.SkeletonStep{StepID: fmt.Sprintf("s%05d", i), Type: plan.Noop, CompensationQueue: "tq-control"}
	}
	return sk
}
