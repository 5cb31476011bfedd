package storeadmin

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// group is the events of one run of version 1, before it is known whose they are.
type group struct {
	runID  string
	line   int
	lines  []int // of the events
	events []run.Event
	// facts that some event tells, such as tenantId, and the first line that told each
	facts   map[string]string
	told    map[string]int
	planRef plan.Ref
}

// envelope is what stands at the top of an event of version 1; every other member
// there belongs into the payload (T147).
var envelope = []string{
	"eventType", "eventId", "runId", "runSeq", "idempotencyKey", "tenantId", "projectId", "environmentId", "planId",
	"planVersion",
	"stepId", "signalId", "logicalAttemptId", "engineAttemptId", "emittedAt", "persistedAt", "emittedBy", "occurredAt",
	"payload",
}

// identity are the members that are the run's and not the event's.
var identity = []string{"tenantId", "projectId", "environmentId", "planId", "planVersion"}

func (r *reader) takeV1(ctx context.Context, text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		r.bad("", "is not an event: %v", err)
		return nil
	}
	m := &v1{r: r, members: members}
	id := m.text("runId", true)
	if r.group == nil || r.group.runID != id {
		if err := r.endGroup(ctx); err != nil {
			return err
		}
		if r.seen[id] {
			r.bad("runId", "the events of run %s do not stand together", id)
		}
		r.seen[id] = true
		r.group = &group{runID: id, line: r.no, facts: map[string]string{}, told: map[string]int{}}
	}
	g := r.group
	e := m.event()
	for _, name := range identity {
		g.tell(r, name, m.text(name, false))
	}
	if e.Type == run.RunStarted {
		g.started(r, e.Payload)
	}
	g.lines, g.events = append(g.lines, r.no), append(g.events, e)
	return nil
}

// tell takes a fact of the run; what is told twice must agree (T147).
func (g *group) tell(r *reader, name, value string) {
	old, known := g.facts[name]
	switch {
	case value == "":
	case known && old != value:
		r.bad(name, "is %q; line %d says %q", value, g.told[name], old)
	case !known:
		g.facts[name], g.told[name] = value, r.no
	}
}

// started takes the facts that a flat RunStarted tells.
func (g *group) started(r *reader, payload json.RawMessage) {
	var p struct {
		PlanRef plan.Ref `json:"planRef"`
		Context struct {
			TenantID, ProjectID, EnvironmentID, TriggeredBy string
		} `json:"context"`
		TriggeredBy string `json:"triggeredBy"`
	}
	_ = json.Unmarshal(payload, &p) // what can be read of it
	g.planRef = p.PlanRef
	g.tell(r, "planId", p.PlanRef.PlanID)
	g.tell(r, "planVersion", p.PlanRef.PlanVersion)
	g.tell(r, "tenantId", p.Context.TenantID)
	g.tell(r, "projectId", p.Context.ProjectID)
	g.tell(r, "environmentId", p.Context.EnvironmentID)
	g.facts["triggeredBy"] = p.TriggeredBy
}

// endGroup hands over a run whose events are all read. Its violations are told at
// the lines that they are about.
func (r *reader) endGroup(ctx context.Context) error {
	g := r.group
	r.group = nil
	if g == nil {
		return nil
	}
	now := r.no
	defer func() { r.no = now }()
	u := unit{line: g.line, run: store.Run{
		Identity: run.Identity{
			RunID: g.runID, TenantID: g.facts["tenantId"], ProjectID: g.facts["projectId"],
			EnvironmentID: g.facts["environmentId"],
			PlanID:        g.facts["planId"], PlanVersion: g.facts["planVersion"],
		},
		PlanRef: g.planRef, TriggeredBy: g.facts["triggeredBy"], TriggerSource: TriggerImport,
		CreatedAt: g.events[0].PersistedAt,
	}}
	r.no = g.line
	checkRun(r, u.run)
	for i, e := range g.events {
		r.no = g.lines[i]
		e.Identity = u.run.Identity
		if e.Key == "" {
			e.Key = draftOf(e).Key(e.Identity)
		}
		if e.EventID == "" {
			e.EventID = e.Key.EventID()
		}
		checkEvent(r, &u, e)
		u.events = append(u.events, e)
	}
	return r.to.unit(ctx, u)
}

// v1 is one event of version 1.
type v1 struct {
	r       *reader
	members map[string]json.RawMessage
}

func (m *v1) event() run.Event {
	e := run.Event{
		EventID: m.text("eventId", false), Type: run.EventType(m.text("eventType", true)),
		Key:    run.Key(m.text("idempotencyKey", false)),
		StepID: m.text("stepId", false), SignalID: m.text("signalId", false),
		EmittedBy: run.Producer(m.text("emittedBy", false)),
		Seq:       run.Seq(m.number("runSeq", 0)), LogicalAttempt: int(m.number("logicalAttemptId", 1)),
		EngineAttempt: int(m.number("engineAttemptId", 1)),
		EmittedAt:     m.time("emittedAt"), PersistedAt: m.time("persistedAt"),
	}
	occurred := m.time("occurredAt")
	if e.EmittedAt.IsZero() {
		e.EmittedAt = occurred
	}
	if e.PersistedAt.IsZero() {
		e.PersistedAt = e.EmittedAt // ES: emittedAt is when it was stored (T16)
	}
	e.Payload = m.payload(e.Type, !occurred.IsZero())
	if e.SignalID == "" && e.Type.OfSignal() {
		p, _ := run.PayloadOf[run.SignalPayload](e.Payload) // what can be read of it
		e.SignalID = p.SignalID
	}
	return e
}

func (m *v1) text(name string, needed bool) string {
	raw, ok := m.members[name]
	if !ok || string(raw) == "null" {
		if needed {
			m.r.bad(name, "is missing")
		}
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || needed && s == "" {
		m.r.bad(name, "must be a string that is not empty")
	}
	return s
}

// number reads an integer, which may stand in a string (T181).
func (m *v1) number(name string, otherwise int64) int64 {
	raw, ok := m.members[name]
	if !ok || string(raw) == "null" {
		return otherwise
	}
	s := string(raw)
	if strings.HasPrefix(s, `"`) {
		if err := json.Unmarshal(raw, &s); err != nil {
			s = ""
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		m.r.bad(name, "must be an integer, not %s", raw)
		return otherwise
	}
	return n
}

func (m *v1) time(name string) time.Time {
	s := m.text(name, false)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		m.r.bad(name, "must be an RFC 3339 time, not %q", s)
	}
	return t.Truncate(authority.Precision).UTC()
}

// payload is that of the event, with what stood flat beside it and the time when it
// happened (T16, T147). One that needs nothing stays byte for byte.
func (m *v1) payload(t run.EventType, occurred bool) json.RawMessage {
	raw, given := m.members["payload"]
	if string(raw) == "null" {
		raw, given = nil, false
	}
	flat := maps.Clone(m.members)
	maps.DeleteFunc(flat, func(name string, _ json.RawMessage) bool { return slices.Contains(envelope, name) })
	if occurred {
		flat["sourceOccurredAt"] = m.members["occurredAt"]
	}
	if len(flat) == 0 {
		return raw
	}
	nested := map[string]json.RawMessage{}
	if given {
		if err := json.Unmarshal(raw, &nested); err != nil {
			m.r.bad("payload", "must be an object: %d members stand beside it", len(flat))
			return raw
		}
	}
	for name, value := range flat {
		if old, twice := nested[name]; twice && !bytes.Equal(old, value) {
			m.r.bad(name, "stands beside the payload and in it, with another value")
		}
		nested[name] = value
	}
	if t == run.RunStarted {
		modernise(nested)
	}
	out, err := authority.Encode(nested)
	if err != nil {
		m.r.bad("payload", "%v", err)
	}
	return out
}

// modernise gives a flat RunStarted the form in which readers look for what it says.
func modernise(p map[string]json.RawMessage) {
	var ref run.EngineRunRef
	if json.Unmarshal(p["engineRunRef"], &ref.WorkflowID) == nil && ref.WorkflowID != "" {
		_ = json.Unmarshal(p["engineType"], &ref.Provider) // may be missing
		if doc, err := authority.Encode(ref); err == nil {
			p["engineRunRef"] = doc
		}
	}
	var context struct {
		TriggeredBy json.RawMessage `json:"triggeredBy"`
	}
	if _, has := p["triggeredBy"]; !has && json.Unmarshal(p["context"], &context) == nil && context.TriggeredBy != nil {
		p["triggeredBy"] = context.TriggeredBy
	}
}
