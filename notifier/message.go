package notifier

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// largestData leaves room for the other fields of a message.
const largestData = destination.MaxMessage - 16<<10

// eventMessage returns the message of an event: the fields that the API shows.
func eventMessage(e run.Event) (destination.Message, error) {
	data, err := json.Marshal(e)
	if err == nil && len(data) > largestData {
		e.Payload = json.RawMessage(`{"omitted":"the payload is too large for a message; read the event in the API"}`)
		data, err = json.Marshal(e)
	}
	return destination.Message{
		ID: e.EventID, Topic: destination.Events, Type: string(e.Type), At: e.PersistedAt, TenantID: e.TenantID,
		ProjectID: e.ProjectID, EnvironmentID: e.EnvironmentID, PlanID: e.PlanID, RunID: e.RunID, Seq: uint64(e.Seq),
		Data: data,
	}, err
}

// sharedMessage is eventMessage with a text that destinations share.
func (n *Notifier) sharedMessage(epoch string, e run.Event) (destination.Message, error) {
	key := epoch + "/" + e.EventID
	if m, found := n.messages.Get(key); found {
		return m, nil
	}
	m, err := eventMessage(e)
	if err == nil {
		n.messages.Put(key, m, len(m.Data))
	}
	return m, err
}

// Types of messages about alerts.
const (
	typeOpened       = "AlertOpened"
	typeRepeated     = "AlertRepeated"
	typeAcknowledged = "AlertAcknowledged"
	typeResolved     = "AlertResolved"
	typeTest         = "DestinationTest" // somebody wants to see whether it arrives
)

// typeOf returns the type of the message about a change.
func typeOf(k store.AlertChangeKind) string {
	switch k {
	case store.AlertChangeOpened:
		return typeOpened
	case store.AlertChangeAcknowledged:
		return typeAcknowledged
	case store.AlertChangeResolved:
		return typeResolved
	}
	return typeRepeated
}

// alertData is what a message says about an alert. The names are those of the API.
type alertData struct {
	ID             string     `json:"id"`
	Level          string     `json:"level"`
	Code           string     `json:"code,omitempty"`
	Note           string     `json:"note"`
	Subject        string     `json:"subject,omitempty"`
	StepID         string     `json:"stepId,omitempty"`
	Count          int64      `json:"count"`
	RaisedAt       time.Time  `json:"raisedAt"`
	LastSeenAt     time.Time  `json:"lastSeenAt"`
	ResolvedAt     *time.Time `json:"resolvedAt,omitempty"`
	Resolution     string     `json:"resolution,omitempty"`
	AcknowledgedAt *time.Time `json:"acknowledgedAt,omitempty"`
	AcknowledgedBy string     `json:"acknowledgedBy,omitempty"`
}

// alertMessage returns the message about an alert, whose id ends with the suffix.
func alertMessage(link func(string) string, a store.AlertState, kind, suffix string,
	at time.Time) (destination.Message, error) {
	data := alertData{ID: a.ID, Level: string(a.Level), Code: string(a.Code), Note: a.Note, Subject: a.Subject,
		StepID: a.StepID, Count: a.Count, RaisedAt: a.At, LastSeenAt: a.LastSeen}
	if kind == typeResolved {
		data.ResolvedAt, data.Resolution = a.ResolvedAt, a.Resolution
	}
	if kind != typeOpened {
		data.AcknowledgedAt, data.AcknowledgedBy = a.AcknowledgedAt, a.AcknowledgedBy
	}
	doc, err := json.Marshal(data)
	text := &destination.AlertText{Key: a.ID, Code: string(a.Code), Title: a.Note, Detail: a.Note, Count: a.Count,
		Link: link(a.RunID), Resolved: kind == typeResolved, Subject: a.Subject}
	if text.Title == "" {
		text.Title = "An alert without a note"
	}
	table := run.CodeTable()
	if i := slices.IndexFunc(table, func(c run.CodeInfo) bool { return c.Code == a.Code }); i >= 0 {
		text.Title, text.Detail = table[i].Meaning, fmt.Sprintf("%s\n%s", a.Note, table[i].WhatToDo)
	}
	return destination.Message{
		ID: a.ID + "-" + suffix, Topic: destination.Alerts, Type: kind, At: at, TenantID: a.TenantID,
		ProjectID: a.ProjectID, EnvironmentID: a.EnvironmentID, PlanID: a.PlanID, RunID: a.RunID, Level: string(a.Level),
		Data: doc, Alert: text,
	}, err
}
