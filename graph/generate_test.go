package graph_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// draws generates random operations and states.
type draws struct {
	*rapid.T
	schema    *ast.Schema
	fragments []string
	without   map[string]bool // fields that must not be selected
}

var apiSchema = sync.OnceValue(func() *ast.Schema { return gqlparser.MustLoadSchema(&ast.Source{Input: dvt.Schema}) })

func newDraws(t *rapid.T, without ...string) *draws {
	d := &draws{T: t, schema: apiSchema(), without: map[string]bool{}}
	// They are rejected in most places.
	d.leaveOut("Step.dbtNodes", "Step.nodes", "Step.inputs", "Step.evidence", "Step.secrets", "Step.output")
	d.leaveOut(without...)
	return d
}

func (d *draws) leaveOut(fields ...string) {
	for _, f := range fields {
		d.without[f] = true
	}
}

// costly returns the fields that lists and subscriptions reject, and more.
func costly(more ...string) []string { return slices.Concat(graph.Costly, more) }

// notInStreams returns the fields of runs and steps that subscriptions reject, and more.
func notInStreams(more ...string) []string {
	return slices.Concat(costly("Run.actions", "Step.actions", "Wait.pollerSeenAt", "Run.late"), more)
}

func (d *draws) n(below int) int { return rapid.IntRange(0, below-1).Draw(d.T, "n") }

func (d *draws) yes(in int) bool { return d.n(in) == 0 }

func pick[T any](d *draws, of ...T) T { return of[d.n(len(of))] }

func maybe[T any](d *draws, v T) *T {
	if d.yes(2) {
		return nil
	}
	return &v
}

// conditions are the variables that every generated operation declares.
const conditions = `$yes: Boolean! = true, $no: Boolean! = false, $given: Boolean!`

// conditioned uses each of conditions, because validation rejects unused variables.
const conditioned = ` u1: __typename @include(if: $yes) u2: __typename @skip(if: $no) u3: __typename @include(if: $given) `

func (d *draws) condition() string {
	if !d.yes(5) {
		return ""
	}
	return " @" + pick(d, "skip", "include", "skip(if: $no) @include", "include(if: $yes) @skip") + "(if: " +
		pick(d, "$yes", "$no", "$given", "true", "false") + ")"
}

// selection generates a selection on a type: fields with and without aliases, some repeated, some in fragments, some
// with conditions.
func (d *draws) selection(typeName string, depth int) string {
	def := d.schema.Types[typeName]
	var b strings.Builder
	b.WriteString("{")
	for range 1 + d.n(6) {
		switch d.n(8) {
		case 0:
			b.WriteString(" " + pick(d, "", "what: ") + "__typename" + d.condition())
		case 1:
			if depth > 0 {
				b.WriteString(" ..." + pick(d, "", " on "+typeName) + d.condition() + d.selection(typeName, depth-1))
			}
		case 2:
			if depth > 0 {
				name := fmt.Sprintf("F%d", len(d.fragments))
				d.fragments = append(d.fragments, "")
				d.fragments[len(d.fragments)-1] = "fragment " + name + " on " + typeName + " " + d.selection(typeName, depth-1)
				b.WriteString(strings.Repeat(" ..."+name+d.condition(), 1+d.n(2)))
			}
		default:
			b.WriteString(d.field(def, depth))
		}
	}
	if typeName == "Run" && d.yes(4) {
		b.WriteString(" ... on Node { id same: id }")
	}
	return b.String() + " __typename }"
}

func (d *draws) field(def *ast.Definition, depth int) string {
	f := def.Fields[d.n(len(def.Fields))]
	of := d.schema.Types[f.Type.Name()]
	if strings.HasPrefix(f.Name, "__") || d.without[def.Name+"."+f.Name] || of.Kind == ast.Object && depth <= 0 {
		return ""
	}
	text := " "
	if d.yes(3) {
		text += "x" + f.Name + ": "
	}
	text += f.Name
	if f.Name == "step" {
		text += `(stepId: "s1")`
	}
	text += d.condition()
	if of.Kind == ast.Object {
		text += " " + d.selection(of.Name, depth-1)
	}
	return text
}

func (d *draws) document(operation string) string {
	return operation + "\n" + strings.Join(d.fragments, "\n")
}

func (d *draws) text() string {
	return pick(d, "", "a", "plain text", "é世界😀", "\"\\/\n\t\r\b\f\x00\x1f\x7f", "\u2028<&>'", "\xff\xfe",
		strings.Repeat("long ", 40))
}

func (d *draws) moment() time.Time {
	return pick(d, time.Time{}, instant, instant.Add(time.Nanosecond), instant.Truncate(time.Second),
		instant.In(time.FixedZone("", 19800)),
		time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC))
}

func (d *draws) seq() run.Seq { return pick(d, 0, 1, 7, 1<<31, run.MaxSeq) }

func (d *draws) jsonValue() json.RawMessage {
	return pick(d, nil, json.RawMessage{}, json.RawMessage(`{"a":[1,2.50,1e400,"\u0000é"]}`),
		json.RawMessage("{\n \"a\": 1}"), json.RawMessage(`null`), json.RawMessage("not\njson"))
}

func (d *draws) artifacts() []run.ArtifactRef {
	var out []run.ArtifactRef
	for range d.n(3) {
		out = append(out, run.ArtifactRef{URI: d.text(), Kind: run.ArtifactKind(d.text()), SHA256: d.text(),
			SizeBytes: pick[int64](d, 0, 1, 1e6, 12345678, math.MaxInt64), ContentType: d.text()})
	}
	return out
}

func (d *draws) failure() *run.StepError {
	return maybe(d, run.StepError{Code: d.text(), Message: d.text(), Retryable: d.yes(2),
		Category: pick(d, "", run.CategoryUser, "NEW"), Source: d.text()})
}

func (d *draws) attempt(n int, status run.StepStatus, sub run.Substatus) run.Attempt {
	a := run.Attempt{
		LogicalAttempt: n, EngineAttempt: d.n(3), Status: status, Substatus: sub, StartedSeq: d.seq(), EndedSeq: d.seq(),
		StartedAt: maybe(d, d.moment()), CompletedAt: maybe(d, d.moment()), DurationMS: pick[int64](d, 0, 1, -5, 1<<40),
		Error: d.failure(), Result: d.jsonValue(), Artifacts: d.artifacts(),
	}
	if d.yes(3) {
		a.Skip = &run.Skip{Reason: d.text(), ReasonCode: "USER"}
	}
	return a
}

func (d *draws) step(i int) *run.Step {
	s := &run.Step{
		StepOutline: run.StepOutline{StepID: fmt.Sprintf("s%d", i), Type: d.text(), Name: d.text(), Group: d.text(),
			TaskQueue: d.text(), ResourceClass: d.text()},
		Ord: run.Ord(i), ChangedSeq: d.seq(), Status: pick(d, run.StepPending, run.StepRunning, run.StepSuccess,
			run.StepFailed, run.StepSkipped, "ODD"),
		Substatus: pick(d, "", "", run.WaitingManual, "ODD"),
	}
	for k := range i {
		if d.yes(3) {
			s.DependsOn = append(s.DependsOn, fmt.Sprintf("s%d", k))
		}
	}
	attempts := d.n(3)
	if s.Status != run.StepPending {
		attempts++
	}
	for n := range attempts {
		s.Attempts = append(s.Attempts, d.attempt(n+1, s.Status, s.Substatus))
	}
	s.LogicalAttempt = attempts
	return s
}

func (d *draws) header(seq run.Seq) run.Header {
	h := run.Header{
		Identity: identity("r1"), Seq: seq, Status: pick(d, run.Pending, run.Approved, run.Running, run.Paused,
			run.Completed,
			run.Failed, run.Cancelled, "ODD"),
		CreatedAt: d.moment(), StartedAt: maybe(d, d.moment()), CompletedAt: maybe(d, d.moment()), TriggeredBy: d.text(),
		RetryDeadline: maybe(d, d.moment()), Compensating: d.yes(5), Queued: d.yes(5), Artifacts: d.artifacts(),
		Counts: run.StepCounts{Total: d.n(5), Pending: d.n(5), Running: d.n(5), Success: math.MaxInt32, Failed: d.n(5),
			Skipped: d.n(5), Manual: d.n(5)},
	}
	h.PlanRef = maybe(d, run.PlanRef{URI: d.text(), SHA256: d.text(), SchemaVersion: d.text(), Compression: d.text(),
		Mirrors: []string{d.text()}[:d.n(2)], ExpiresAt: pick(d, time.Time{}, time.Unix(1_800_000_000, 0)),
		SchemaEvolutionPath: d.text(), MigrationHint: maybe(d, plan.MigrationHint{SourceVersion: d.text(),
			TargetVersion: d.text(), TransformScript: d.text()})})
	h.PlanMirror = d.text()
	h.Engine = maybe(d, run.EngineRunRef{Provider: d.text(), Namespace: d.text(), WorkflowID: d.text(),
		EngineRunID: d.text()})
	h.Pause = maybe(d, run.PauseInfo{SignalID: d.text(), RequestedBy: d.text(), Reason: d.text(), Since: d.moment(),
		Seq: d.seq()})
	h.RootCause = maybe(d, run.StepRef{StepID: fmt.Sprintf("s%d", d.n(4)), LogicalAttempt: 1, Seq: d.seq(),
		Error: d.failure()})
	h.Failure = maybe(d, run.RunFailure{
		Code: d.text(), Message: d.text(), Retryable: d.yes(2), Category: "NEW", Seq: d.seq(),
		RootCause: maybe(d, run.RootCause{StepID: fmt.Sprintf("s%d", d.n(4)), LogicalAttempt: d.n(2), ErrorCode: d.text(),
			ErrorMessage: d.text()}),
	})
	return h
}

func (d *draws) state() run.State {
	s := run.State{Header: d.header(d.seq())}
	for i := range d.n(6) {
		step := d.step(i)
		step.ChangedSeq = min(step.ChangedSeq, s.Seq)
		s.Steps = append(s.Steps, step)
	}
	return s
}

// after generates a state that follows s in its log. Unchanged steps share their pointers.
func (d *draws) after(s run.State) run.State {
	next := run.State{Header: d.header(s.Seq + 1), Steps: append([]*run.Step(nil), s.Steps...)}
	for i, old := range next.Steps {
		if d.yes(6) { // an equal step that was loaded again
			copied := *old
			next.Steps[i] = &copied
		} else if d.yes(3) {
			step := d.step(i)
			step.StepOutline, step.ChangedSeq = old.StepOutline, next.Seq
			next.Steps[i] = step
		}
	}
	return next
}

// frames generates the frames of one stream, as a hub sends them to one viewer.
func (d *draws) frames() []live.Frame {
	var out []live.Frame
	state, epoch, shown := d.state(), "e1", run.Seq(0)
	for i := range 1 + d.n(5) {
		f := live.Frame{
			Sync: pick(d, live.Live, live.Live, live.Stale, live.Resyncing), Reason: pick(d, "", "", live.Gap,
				live.StoreDown),
			HeadSeq: d.seq(),
			OpsRev:  int64(d.n(9)), AsOf: d.moment(), CommittedAt: d.moment(), Lag: pick(d, 0, 1500*time.Microsecond,
				time.Hour),
			Changed: i == 0,
		}
		if i > 0 {
			switch d.n(4) {
			case 0: // no change
			case 1: // another epoch, as after a restore
				state, epoch = d.state(), epoch+"x"
				f.Reset, f.Changed, shown = true, true, 0
			default:
				state = d.after(state)
				f.Changed = true
			}
		}
		f.State, f.Epoch, f.From = state, epoch, shown
		shown = state.Seq
		out = append(out, f)
	}
	return out
}

// rows generates the frames of a stream of a list.
func (d *draws) rows() []watch.RunsFrame {
	var out []watch.RunsFrame
	for i := range 1 + d.n(4) {
		f := watch.RunsFrame{Sync: live.Live, Reason: pick(d, "", live.BusDegraded), AsOf: d.moment(), Reset: i == 0 ||
			d.yes(5), Runs: d.page(false).Runs}
		for range d.n(3) {
			f.Removed = append(f.Removed, d.text())
		}
		out = append(out, f)
	}
	return out
}

func (d *draws) page(steps bool) control.RunsPage {
	p := control.RunsPage{HasNext: d.yes(2), HasPrev: d.yes(2)}
	for range d.n(4) {
		v := control.RunView{State: d.state(), Epoch: d.text(), OpsRev: int64(d.n(9))}
		if !steps {
			v.State.Steps = nil
		}
		p.Runs, p.Cursors = append(p.Runs, v), append(p.Cursors, d.text())
	}
	return p
}
