package archive

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Renaming replaces the name of a person in texts and in documents of JSON.
type Renaming interface {
	Text(s string) string
	JSON(doc []byte) []byte
}

// WriteRenamed is Write of a run without the name of a person. It changes nothing in the store.
func WriteRenamed(ctx context.Context, s store.Store, objects Objects, runID string, to Renaming) (store.ArchivedRun,
	error) {
	return Write(ctx, renamed{s, to}, objects, runID)
}

// renamed is a store that answers about runs without the name of a person.
type renamed struct {
	store.Store
	to Renaming
}

func (s renamed) Get(ctx context.Context, runID string) (store.Run, error) {
	r, err := s.Store.Get(ctx, runID)
	if err != nil {
		return r, err
	}
	r.TriggeredBy, r.RequestID = s.to.Text(r.TriggeredBy), s.to.Text(r.RequestID)
	if len(r.Params) > 0 {
		r.Params = s.to.JSON(r.Params)
	}
	policy, err := json.Marshal(r.Policy)
	if err != nil {
		return r, err
	}
	if without := s.to.JSON(policy); string(without) != string(policy) {
		r.Policy = run.Policy{}
		err = json.Unmarshal(without, &r.Policy)
	}
	return r, err
}

func (s renamed) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	events, err := s.Store.Events(ctx, runID, after, limit)
	events = slices.Clone(events)
	for i := range events {
		events[i].Payload = s.to.JSON(events[i].Payload)
	}
	return events, err
}

func (s renamed) Receipts(ctx context.Context, runID, after string, limit int) ([]run.SignalReceipt, error) {
	list, err := s.Store.Receipts(ctx, runID, after, limit)
	list = slices.Clone(list)
	for i := range list {
		r := &list[i]
		r.Actor, r.Reason, r.RejectText = s.to.Text(r.Actor), s.to.Text(r.Reason), s.to.Text(r.RejectText)
		r.ApplicationReason = s.to.Text(r.ApplicationReason)
		if len(r.Payload) > 0 {
			r.Payload = s.to.JSON(r.Payload)
		}
	}
	return list, err
}

func (s renamed) ListNotes(ctx context.Context, runID string) ([]store.Note, error) {
	list, err := s.Store.ListNotes(ctx, runID)
	list = slices.Clone(list)
	for i := range list {
		list[i].Author, list[i].Body = s.to.Text(list[i].Author), s.to.Text(list[i].Body)
	}
	return list, err
}
