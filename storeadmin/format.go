package storeadmin

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// An export is JSON Lines. The first line is the header. Then come, for each run, its plan unless it was written
// before, the run, its events in order, its receipts in order, and its end. The last line has the totals. Version is
// the version of the event envelope (contract T181). A file of version 1 has only events.
const (
	Format  = "dvt-export"
	Version = 2
)

// maxLine limits one line, in bytes. The longest lines are the largest plan and its RunStarted.
const maxLine = 64 << 20

// line is one line of an export. A header has Format to ExportedAt; any other line has exactly one of the other fields.
type line struct {
	Format     string     `json:"format,omitempty"`
	Version    int        `json:"version,omitempty"`
	StoreEpoch string     `json:"storeEpoch,omitempty"`
	ExportedAt *time.Time `json:"exportedAt,omitempty"`

	Plan    *planLine    `json:"plan,omitempty"`
	Run     *runLine     `json:"run,omitempty"`
	Event   *eventLine   `json:"event,omitempty"`
	Receipt *receiptLine `json:"receipt,omitempty"`
	End     *endLine     `json:"end,omitempty"`
	Total   *totalLine   `json:"total,omitempty"`
}

type planLine struct {
	SHA256 string `json:"sha256"`
	Body   []byte `json:"body"` // base64
}

// documentOf returns a JSON document in a form that keeps its bytes: inline if it is compact, else as text.
func documentOf(raw json.RawMessage) (inline json.RawMessage, text *string) {
	if raw == nil {
		return nil, nil
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil && bytes.Equal(compact.Bytes(), raw) && string(raw) != "null" {
		return raw, nil
	}
	s := string(raw)
	return nil, &s
}

// rawOf reverses documentOf.
func rawOf(inline json.RawMessage, text *string) json.RawMessage {
	if text != nil {
		return json.RawMessage(*text)
	}
	return inline
}

type runLine struct {
	run.Identity
	RequestKey    run.Key         `json:"requestKey,omitempty"`
	RequestID     string          `json:"requestId,omitempty"`
	PlanRef       plan.Ref        `json:"planRef"`
	TriggeredBy   string          `json:"triggeredBy,omitempty"`
	TriggerSource string          `json:"triggerSource,omitempty"`
	ParentRunID   string          `json:"parentRunId,omitempty"`
	Params        json.RawMessage `json:"params,omitempty"`
	ParamsText    *string         `json:"paramsText,omitempty"`
	Policy        run.Policy      `json:"policy"`
	CreatedAt     time.Time       `json:"createdAt"`
	Tags          []string        `json:"tags,omitempty"`
	Notes         []noteLine      `json:"notes,omitempty"`
}

// noteLine is a note that a person attached to the run.
type noteLine struct {
	Author    string    `json:"author"`
	Body      string    `json:"body"`
	RequestID string    `json:"requestId"`
	At        time.Time `json:"at"`
}

func runLineOf(r store.Run) *runLine {
	out := &runLine{
		Identity: r.Identity, RequestKey: r.RequestKey, RequestID: r.RequestID, PlanRef: r.PlanRef,
		TriggeredBy:   r.TriggeredBy,
		TriggerSource: r.TriggerSource, ParentRunID: r.ParentRunID, Policy: r.Policy, CreatedAt: r.CreatedAt,
	}
	out.Params, out.ParamsText = documentOf(r.Params)
	return out
}

// annotate adds what people attached to the run.
func (l *runLine) annotate(tags []string, notes []store.Note) {
	l.Tags = tags
	for _, n := range notes {
		l.Notes = append(l.Notes, noteLine{Author: n.Author, Body: n.Body, RequestID: n.RequestID, At: n.At})
	}
}

func (l *runLine) notes() (out []store.Note) {
	for _, n := range l.Notes {
		out = append(out, store.Note{Author: n.Author, Body: n.Body, RequestID: n.RequestID, At: n.At})
	}
	return out
}

func (l *runLine) run() store.Run {
	return store.Run{
		Identity: l.Identity, RequestKey: l.RequestKey, RequestID: l.RequestID, PlanRef: l.PlanRef,
		TriggeredBy:   l.TriggeredBy,
		TriggerSource: l.TriggerSource, ParentRunID: l.ParentRunID, Params: rawOf(l.Params, l.ParamsText), Policy: l.Policy,
		CreatedAt: l.CreatedAt,
	}
}

type eventLine struct {
	run.Event
	SignalID    string  `json:"signalId,omitempty"`
	PayloadText *string `json:"payloadText,omitempty"`
}

func eventLineOf(e run.Event) *eventLine {
	out := &eventLine{Event: e, SignalID: e.SignalID}
	out.Payload, out.PayloadText = documentOf(e.Payload)
	return out
}

func (l *eventLine) event() run.Event {
	e := l.Event
	e.SignalID, e.Payload = l.SignalID, rawOf(l.Payload, l.PayloadText)
	return e
}

type receiptLine struct {
	RunID             string          `json:"runId"`
	Signal            run.Signal      `json:"signal"`
	Payload           json.RawMessage `json:"payload,omitempty"`
	PayloadText       *string         `json:"payloadText,omitempty"`
	Actor             string          `json:"actor"`
	Reason            string          `json:"reason,omitempty"`
	No                int64           `json:"no,omitempty"`
	Rejected          bool            `json:"rejected,omitempty"`
	Rejection         run.Code        `json:"rejection,omitempty"`
	RejectText        string          `json:"rejectText,omitempty"`
	Application       run.Application `json:"application,omitempty"`
	ApplicationReason string          `json:"applicationReason,omitempty"`
	AcceptedSeq       run.Seq         `json:"acceptedSeq,omitempty"`
	AppliedSeq        run.Seq         `json:"appliedSeq,omitempty"`
	QuiescentSeq      run.Seq         `json:"quiescentSeq,omitempty"`
	ReceivedAt        time.Time       `json:"receivedAt"`
	DeliveredAt       *time.Time      `json:"deliveredAt,omitempty"`
	AppliedAt         *time.Time      `json:"appliedAt,omitempty"`
}

func receiptLineOf(r run.SignalReceipt) *receiptLine {
	out := &receiptLine{
		RunID: r.RunID, Signal: r.Signal, Actor: r.Actor, Reason: r.Reason, No: r.No,
		Rejected: r.Rejected, Rejection: r.Rejection, RejectText: r.RejectText,
		Application: r.Application, ApplicationReason: r.ApplicationReason,
		AcceptedSeq: r.AcceptedSeq, AppliedSeq: r.AppliedSeq, QuiescentSeq: r.QuiescentSeq,
		ReceivedAt: r.ReceivedAt, DeliveredAt: r.DeliveredAt, AppliedAt: r.AppliedAt,
	}
	out.Payload, out.PayloadText = documentOf(r.Payload)
	return out
}

func (l *receiptLine) receipt() run.SignalReceipt {
	return run.SignalReceipt{
		RunID: l.RunID, Signal: l.Signal, Payload: rawOf(l.Payload, l.PayloadText), Actor: l.Actor, Reason: l.Reason,
		No:       l.No,
		Rejected: l.Rejected, Rejection: l.Rejection, RejectText: l.RejectText,
		Application: l.Application, ApplicationReason: l.ApplicationReason,
		AcceptedSeq: l.AcceptedSeq, AppliedSeq: l.AppliedSeq, QuiescentSeq: l.QuiescentSeq,
		ReceivedAt: l.ReceivedAt, DeliveredAt: l.DeliveredAt, AppliedAt: l.AppliedAt,
	}
}

type endLine struct {
	RunID    string `json:"runId"`
	Events   int    `json:"events"`
	Receipts int    `json:"receipts"`
}

type totalLine struct {
	Runs   int   `json:"runs"`
	Events int64 `json:"events"`
}
