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

// group collects the events of one run of version 1 until all facts of the run are known.
type group struct {
	runID  string
	line   int
	lines  []int // line numbers of the events
	events []run.Event
	// facts of the run that its events name, such as tenantId, and the first line that names each
	facts   map[string]string
	toldAt  map[string]int
	planRef plan.Ref
}

// envelope is the members of the envelope of an event of version 1. All other members of the event belong to the
// payload (contract T147).
var envelope = []string{
	"eventType", "eventId", "runId", "runSeq", "idempotencyKey", "tenantId", "projectId", "environmentId", "planId",
	"planVersion",
	"stepId", "signalId", "logicalAttemptId", "engineAttemptId", "emittedAt", "persistedAt", "emittedBy", "occurredAt",
	"payload",
}

// identity is the members of the envelope that name facts of the run.
var identity = []string{"tenantId", "projectId", "environmentId", "planId", "planVersion"}

func (r *reader) takeV1(ctx context.Context, text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		r.reject("", "is not an event: %v", err)
		return nil
	}
	m := &v1{r: r, members: members}
	id := m.text("runId", true)
	if r.group == nil || r.group.runID != id {
		if err := r.endGroup(ctx); err != nil {
			return err
		}
		if r.seen[id] {
			r.reject("runId", "the events of run %s must be on consecutive lines", id)
		}
		r.seen[id] = true
		r.group = &group{runID: id, line: r.no, facts: map[string]string{}, toldAt: map[string]int{}}
	}
	g := r.group
	e := m.event()
	for _, name := range identity {
		g.tell(r, name, m.text(name, false))
	}
	if e.Type == run.RunStarted {
		g.tellStarted(r, e.Payload)
	}
	g.lines, g.events = append(g.lines, r.no), append(g.events, e)
	return nil
}

// tell records a fact of the run. All lines that name a fact must agree (contract T147).
func (g *group) tell(r *reader, name, value string) {
	old, known := g.facts[name]
	switch {
	case value == "":
	case known && old != value:
		r.reject(name, "is %q; line %d says %q", value, g.toldAt[name], old)
	case !known:
		g.facts[name], g.toldAt[name] = value, r.no
	}
}

// tellStarted records the facts that a flat RunStarted names.
func (g *group) tellStarted(r *reader, payload json.RawMessage) {
	var p struct {
		PlanRef plan.Ref `json:"planRef"`
		Context struct {
			TenantID, ProjectID, EnvironmentID, TriggeredBy string
		} `json:"context"`
		TriggeredBy string `json:"triggeredBy"`
	}
	_ = json.Unmarshal(payload, &p) // an error leaves the fields that were read before it
	g.planRef = p.PlanRef
	g.tell(r, "planId", p.PlanRef.PlanID)
	g.tell(r, "planVersion", p.PlanRef.PlanVersion)
	g.tell(r, "tenantId", p.Context.TenantID)
	g.tell(r, "projectId", p.Context.ProjectID)
	g.tell(r, "environmentId", p.Context.EnvironmentID)
	g.facts["triggeredBy"] = p.TriggeredBy
}

// endGroup checks a run whose events were all read and passes it to the sink. It reports violations with the lines of
// the events concerned.
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
		e.PersistedAt = e.EmittedAt // such logs have the time of storing as emittedAt (contract T16)
	}
	e.Payload = m.payload(e.Type, !occurred.IsZero())
	if e.SignalID == "" && e.Type.OfSignal() {
		p, _ := run.PayloadOf[run.SignalPayload](e.Payload) // without a readable payload there is no signalId
		e.SignalID = p.SignalID
	}
	return e
}

// text reads a string.
func (m *v1) text(name string, needed bool) string {
	raw, ok := m.members[name]
	if !ok || string(raw) == "null" {
		if needed {
			m.r.reject(name, "is missing")
		}
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || needed && s == "" {
		m.r.reject(name, "must be a non-empty string")
	}
	return s
}

// number reads an integer, which may be in a string (contract T181).
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
		m.r.reject(name, "must be an integer, not %s", raw)
		return otherwise
	}
	return n
}

// time reads an RFC 3339 time.
func (m *v1) time(name string) time.Time {
	s := m.text(name, false)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		m.r.reject(name, "must be an RFC 3339 time, not %q", s)
	}
	return t.Truncate(authority.Precision).UTC()
}

// payload returns the payload of the event, with the members that are beside it in a flat event and with occurredAt
// (contract T16, T147). A payload without such additions keeps its bytes.
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
			m.r.reject("payload", "must be an object, because %d members beside it belong to it", len(flat))
			return raw
		}
	}
	for name, value := range flat {
		if old, twice := nested[name]; twice && !bytes.Equal(old, value) {
			m.r.reject(name, "has different values beside the payload and in it")
		}
		nested[name] = value
	}
	if t == run.RunStarted {
		modernise(nested)
	}
	out, err := authority.Encode(nested)
	if err != nil {
		m.r.reject("payload", "%v", err)
	}
	return out
}

// modernise converts the payload of a flat RunStarted into the present form.
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
