package runtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// RandomLog returns a log that an engine could have written: queueing, approval, parallel steps, failures, retries by
// hand, manual steps, pauses, retry windows, compensation, and mostly an end. Every event passes Validate.
func RandomLog(seed uint64) []run.Event {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), latest: map[string]int{}, batches: map[string]int{},
		waits: map[string]bool{}, status: map[string]run.StepStatus{}}
	return Log(g.log()...)
}

// Hostile returns RandomLog(seed) with the damage of a faulty import: events of unknown types, repeated under new
// sequences, exchanged, lost, with broken payloads, foreign steps, invalid attempts, and holes between sequences. The
// sequences ascend.
func Hostile(seed uint64) []run.Event {
	r := rand.New(rand.NewPCG(seed, 2))
	evs := RandomLog(seed)
	for range 1 + r.IntN(8) {
		i, j := r.IntN(len(evs)), r.IntN(len(evs))
		switch r.IntN(8) {
		case 0:
			evs[i], evs[j] = evs[j], evs[i]
		case 1:
			evs = append(evs, evs[i])
		case 2:
			evs[i].Type = "FutureThing"
		case 3:
			if len(evs) > 2 {
				evs = append(evs[:i], evs[i+1:]...)
			}
		case 4:
			evs[i].Payload = []byte(pick(r, `{`, `[]`, `null`, `{"steps":7}`, `{"errorCode":{}}`, "",
				`{"steps":[{"stepId":"x"},{"stepId":"x"}]}`, `{"retryDeadline":"soon"}`))
		case 5:
			evs[i].StepID = pick(r, "stranger", "", "s0", "s1")
		case 6:
			evs[i].LogicalAttempt = pick(r, -1, 0, 1, 2, 1<<40)
		case 7:
			evs[i].Type = Types[r.IntN(len(Types))]
		}
	}
	var seq run.Seq
	for i := range evs {
		seq += run.Seq(1 + r.IntN(2)*r.IntN(3))
		evs[i].Seq = seq
	}
	return evs
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// generator makes the log of one random run.
type generator struct {
	r       *rand.Rand
	out     []run.Draft
	steps   []string
	deps    map[string][]string
	latest  map[string]int  // logical attempt of each step
	batches map[string]int  // reports of nodes of each step
	waits   map[string]bool // for a person
	status  map[string]run.StepStatus
	epoch   int
	paused  bool
	signal  int
}

func (g *generator) add(d run.Draft) { g.out = append(g.out, d) }

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *generator) log() []run.Draft {
	if g.chance(20) {
		g.add(Draft(run.RunQueued, "", 1))
		if g.chance(5) {
			return g.out
		}
	}
	g.add(Draft(run.RunApproved, "", 1))
	if g.chance(5) {
		g.add(Draft(run.RunCancelled, "", 1))
		return g.out
	}
	g.add(Start(g.plan()...))
	for range g.r.IntN(6 * len(g.steps)) {
		g.step()
	}
	if g.chance(80) {
		g.end()
	}
	return g.out
}

// plan makes an acyclic graph. In some graphs the canonical order differs from the order of the ids.
func (g *generator) plan() []string {
	g.deps = map[string][]string{}
	n := 1 + g.r.IntN(5)
	for i := range n {
		id := fmt.Sprintf("s%d", i)
		for _, before := range g.steps {
			if g.chance(40) {
				g.deps[id] = append(g.deps[id], before)
			}
		}
		g.steps = append(g.steps, id)
		g.status[id] = run.StepPending
	}
	if g.chance(30) {
		g.r.Shuffle(n, func(i, j int) { g.steps[i], g.steps[j] = g.steps[j], g.steps[i] })
	}
	outlines := make([]string, n)
	for i, id := range g.steps {
		outlines[i] = id
		if len(g.deps[id]) > 0 {
			outlines[i] += "<" + strings.Join(g.deps[id], ",")
		}
	}
	return outlines
}

// step adds the events of one random action.
func (g *generator) step() {
	id := g.steps[g.r.IntN(len(g.steps))]
	switch {
	case g.chance(10):
		g.decide()
	case g.paused && g.chance(40):
		g.paused = false
		g.add(Draft(run.RunResumed, "", g.epoch, g.window()))
	case !g.paused && g.chance(10):
		g.paused = true
		g.epoch++
		g.add(Draft(run.RunPaused, "", g.epoch))
	case g.status[id] == run.StepRunning && g.chance(20):
		g.report(id)
	case g.status[id] == run.StepRunning:
		g.finish(id)
	case g.paused:
	case g.status[id] == run.StepFailed, g.status[id] == run.StepPending && g.ready(id):
		g.begin(id)
	}
}

func (g *generator) decide() {
	g.signal++
	t := pick(g.r, run.SignalAccepted, run.SignalRejected)
	g.add(Draft(t, fmt.Sprintf("sig-%d", g.signal), 1))
}

func (g *generator) begin(id string) {
	g.latest[id]++
	if g.chance(10) {
		g.status[id] = run.StepSkipped
		g.add(Draft(run.StepSkippedEvent, id, g.latest[id]))
		return
	}
	g.status[id] = run.StepRunning
	g.add(Draft(run.StepStartedEvent, id, g.latest[id]))
	if g.waits[id] = g.chance(10); g.waits[id] {
		g.add(Draft(run.StepAwaitingManualCompletion, id, g.latest[id], pick(g.r, nil, M{"deadline": Epoch.Add(time.Hour)})))
	}
}

// report adds a report of nodes with the next number of the step.
func (g *generator) report(id string) {
	g.batches[id]++
	done := g.r.IntN(3)
	g.add(Draft(run.StepNodesReported, id, g.latest[id], M{"batch": g.batches[id],
		"counts": M{"total": 4, "running": 4 - done, "success": done}}))
}

func (g *generator) finish(id string) {
	if g.chance(30) {
		g.status[id] = run.StepFailed
		g.add(Draft(run.StepFailedEvent, id, g.latest[id], g.window(), g.manualEnd(id, run.ManualFailed)))
		return
	}
	g.status[id] = run.StepSuccess
	uris := []M{{"uri": "file:///out/" + id, "kind": "log-bundle"}, {"uri": fmt.Sprintf("file:///shared/%d", g.r.IntN(3)),
		"kind": "data"}}
	g.add(Draft(run.StepCompletedEvent, id, g.latest[id], g.window(), M{"artifactRefs": uris,
		"result": pick[any](g.r, nil, M{"html": "<&>"}, 7)},
		g.manualEnd(id, run.ManualSucceeded)))
}

// manualEnd returns the payload member with the person who completed a step that waited for one. It returns nil for
// other steps and for a wait that timed out.
func (g *generator) manualEnd(id string, as run.ManualOutcome) M {
	if !g.waits[id] || g.chance(20) {
		return nil
	}
	g.signal++
	return M{"manual": M{"signalId": fmt.Sprintf("sig-%d", g.signal), "outcome": as, "actor": "pat",
		"evidenceRefs": pick(g.r, []string{}, []string{"s3://b/proof"})}}
}

// window returns a retry deadline if the next event opens the retry window: a step is FAILED, no step is RUNNING and
// the run is not paused (contract T221).
func (g *generator) window() M {
	failed := false
	for _, id := range g.steps {
		if g.status[id] == run.StepRunning {
			return nil
		}
		failed = failed || g.status[id] == run.StepFailed
	}
	if !failed || g.paused {
		return nil
	}
	return M{"retryDeadline": Epoch.Add(time.Hour)}
}

func (g *generator) ready(id string) bool {
	for _, dep := range g.deps[id] {
		if g.status[dep] != run.StepSuccess && g.status[dep] != run.StepSkipped {
			return false
		}
	}
	return true
}

func (g *generator) end() {
	for _, id := range g.steps {
		if g.status[id] == run.StepRunning {
			g.finish(id)
		}
	}
	if g.paused {
		g.add(Draft(run.RunResumed, "", g.epoch))
	}
	done := true
	for _, id := range g.steps {
		done = done && (g.status[id] == run.StepSuccess || g.status[id] == run.StepSkipped)
	}
	switch {
	case done:
		g.add(Draft(run.RunCompleted, "", 1))
	case g.chance(50):
		g.add(Draft(run.RunCancelled, "", 1))
	default:
		if g.chance(50) {
			g.add(Draft(run.RunCompensationStarted, "", 1, M{"stepIds": g.steps[:1]}))
			g.add(Draft(pick(g.r, run.StepCompensated, run.StepCompensationFailed), g.steps[0], 1))
			if g.chance(20) {
				return
			}
		}
		g.add(Draft(run.RunFailed, "", 1))
	}
	if g.chance(20) {
		g.decide()
	}
}
