package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// Annotations reads and changes the tags and notes of runs.
type Annotations interface {
	Marks(ctx context.Context, p authz.Principal, runIDs []string) (map[string]runs.Marks, error)
	Notes(ctx context.Context, p authz.Principal, runID string) ([]runs.Note, error)
	TagRun(ctx context.Context, p authz.Principal, in runs.TagRun) (runs.TaggedRun, error)
	ChangeTags(ctx context.Context, p authz.Principal, in runs.ChangeTags) (runs.TaggedRun, error)
	AddNote(ctx context.Context, p authz.Principal, in runs.NoteRun) (runs.Note, error)
}

// ViewService keeps the saved views of lists.
type ViewService interface {
	SavedViews(ctx context.Context, p authz.Principal) ([]reads.SavedView, error)
	SaveView(ctx context.Context, p authz.Principal, in reads.SaveView) (reads.SavedView, error)
	DeleteView(ctx context.Context, p authz.Principal, id string) (control.Change, error)
}

func (q queries) RunTags(ctx context.Context, runIDs []string) ([]model.RunTags, error) {
	marks, err := q.control.Marks(ctx, principal(ctx), runIDs)
	out := make([]model.RunTags, 0, len(marks))
	for _, id := range slices.Sorted(maps.Keys(marks)) {
		out = append(out, model.RunTags{RunID: id, Tags: mapping.List(marks[id].Tags), Notes: marks[id].Notes})
	}
	return out, err
}

func (q queries) RunNotes(ctx context.Context, runID string) ([]model.RunNote, error) {
	notes, err := q.control.Notes(ctx, principal(ctx), runID)
	return mapping.MapSlice(notes, mapNote), err
}

func mapNote(n runs.Note) model.RunNote {
	return model.RunNote{No: int(n.No), Author: n.Author, At: n.At, Body: n.Body}
}

func (m mutations) SetRunTags(ctx context.Context, in model.SetRunTagsInput) (*model.SetRunTagsPayload, error) {
	tagged, err := m.control.TagRun(ctx, principal(ctx), runs.TagRun{RunID: in.RunID, RequestID: in.RequestID,
		Tags: in.Tags})
	if err != nil {
		return nil, err
	}
	return &model.SetRunTagsPayload{Tags: append([]string{}, tagged.Tags...), Change: mapping.Change(tagged.Change)}, nil
}

func (m mutations) ChangeRunTags(ctx context.Context, in model.ChangeRunTagsInput) (*model.SetRunTagsPayload, error) {
	tagged, err := m.control.ChangeTags(ctx, principal(ctx), runs.ChangeTags{RunID: in.RunID, RequestID: in.RequestID,
		Add: in.Add, Remove: in.Remove})
	if err != nil {
		return nil, err
	}
	return &model.SetRunTagsPayload{Tags: append([]string{}, tagged.Tags...), Change: mapping.Change(tagged.Change)}, nil
}

func (m mutations) AddRunNote(ctx context.Context, in model.AddRunNoteInput) (*model.AddRunNotePayload, error) {
	note, err := m.control.AddNote(ctx, principal(ctx), runs.NoteRun{RunID: in.RunID, RequestID: in.RequestID,
		Body: in.Body})
	if err != nil {
		return nil, err
	}
	return &model.AddRunNotePayload{Note: new(mapNote(note)), Change: mapping.Change(control.Change{
		Action: runs.ActionNoteRun, RequestID: note.RequestID, Actor: note.Author, At: note.At})}, nil
}

func (q queries) SavedViews(ctx context.Context) ([]model.SavedView, error) {
	p := principal(ctx)
	views, err := q.control.SavedViews(ctx, p)
	return mapping.MapSlice(views, func(v reads.SavedView) model.SavedView { return mapView(p, v) }), err
}

func mapView(p authz.Principal, v reads.SavedView) model.SavedView {
	return model.SavedView{ViewID: v.ID, Owner: v.Owner, Yours: v.Owner == p.ID, ProjectID: mapping.Text(v.ProjectID),
		Name: v.Name, Query: v.Query, At: v.At}
}

func (m mutations) SaveView(ctx context.Context, in model.SaveViewInput) (*model.SaveViewPayload, error) {
	p := principal(ctx)
	v, err := m.control.SaveView(ctx, p, reads.SaveView{ID: in.ID, ProjectID: mapping.OrZero(in.ProjectID), Name: in.Name,
		Query: in.Query})
	if err != nil {
		return nil, err
	}
	return &model.SaveViewPayload{View: new(mapView(p, v)), Change: mapping.Change(control.Change{
		Action: reads.ActionSaveView, RequestID: v.ID, Actor: v.Owner, At: v.At})}, nil
}

func (m mutations) DeleteView(ctx context.Context, in model.DeleteViewInput) (*model.DeleteViewPayload, error) {
	change, err := m.control.DeleteView(ctx, principal(ctx), in.ID)
	return &model.DeleteViewPayload{Deleted: change != control.Change{}, Change: mapping.Change(change)}, err
}
