package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Actions in audit rows about what people attach to runs.
const (
	ActionTagRun  = "TAG_RUN"
	ActionNoteRun = "NOTE_RUN"
)

// Note is a note of a run.
type Note = store.Note

// Limits of annotations.
const (
	MaxNoteBytes  = 4096
	MaxTaggedRuns = 200 // of one query for tags
)

// tagPattern matches a tag: a key, or a key and a value.
var tagPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,31}(:[A-Za-z0-9][A-Za-z0-9_./@-]{0,63})?$`)

// AnnotationStore reads and changes what people attach to runs.
type AnnotationStore interface {
	store.Annotations
	store.Transactor
}

// Annotator reads and changes the tags and notes of runs. They are not part of the log, and no engine reads them. It is
// safe for concurrent use.
type Annotator struct {
	rights *control.Rights
	store  AnnotationStore
}

// NewAnnotator makes an Annotator.
func NewAnnotator(rights *control.Rights, store AnnotationStore) *Annotator {
	return &Annotator{rights: rights, store: store}
}

// TagRun asks to replace the tags of a run.
type TagRun struct {
	RunID, RequestID string
	Tags             []string
}

// ChangeTags asks to add tags to a run and to remove tags from it. Other tags of the run stay.
type ChangeTags struct {
	RunID, RequestID string
	Add, Remove      []string
}

// NoteRun asks to add a note to a run.
type NoteRun struct{ RunID, RequestID, Body string }

// Marks are what a list shows of the annotations of a run.
type Marks struct {
	Tags  []string // sorted
	Notes int      // their number
}

// Marks reads the tags and the numbers of notes of those of at most MaxTaggedRuns runs that p may read, by run id. Runs
// without either are absent. Error: BAD_USER_INPUT.
func (s *Annotator) Marks(ctx context.Context, p authz.Principal, runIDs []string) (map[string]Marks, error) {
	if len(runIDs) > MaxTaggedRuns {
		return nil, control.BadInput([]plan.Violation{{Path: "runIds", Code: plan.CodeRange,
			Message: fmt.Sprintf("must be at most %d", MaxTaggedRuns)}})
	}
	scope, ok := s.rights.Narrow(p, control.RunFilter{})
	if !ok {
		return nil, nil
	}
	tags, err := s.store.ListTags(ctx, scope, runIDs)
	if err != nil {
		return nil, control.Translate(err)
	}
	notes, err := s.store.CountNotes(ctx, scope, runIDs)
	if err != nil {
		return nil, control.Translate(err)
	}
	out := make(map[string]Marks, len(tags))
	for id, list := range tags {
		out[id] = Marks{Tags: list}
	}
	for id, n := range notes {
		out[id] = Marks{Tags: out[id].Tags, Notes: n}
	}
	return out, nil
}

// Notes reads the notes of a run, the oldest first. Error: NOT_FOUND.
func (s *Annotator) Notes(ctx context.Context, p authz.Principal, runID string) ([]store.Note, error) {
	if _, err := s.rights.GetVisible(ctx, p, authz.Read, runID); err != nil {
		return nil, err
	}
	notes, err := s.store.ListNotes(ctx, runID)
	return notes, control.Translate(err)
}

// TaggedRun has the tags of a run, sorted, and the receipt of their change.
type TaggedRun struct {
	Tags   []string
	Change control.Change // zero when the run had these tags before
}

// TagRun replaces the tags of a run. It is audited unless nothing changed. Errors: NOT_FOUND, FORBIDDEN without
// ANNOTATE, BAD_USER_INPUT.
func (s *Annotator) TagRun(ctx context.Context, p authz.Principal, in TagRun) (TaggedRun, error) {
	vs := checkTags(control.CheckID(nil, "requestId", in.RequestID), "tags", in.Tags)
	tags := slices.Compact(slices.Sorted(slices.Values(in.Tags)))
	if len(tags) > store.MaxTags {
		vs = append(vs, plan.Violation{Path: "tags", Code: plan.CodeRange,
			Message: fmt.Sprintf("must be at most %d", store.MaxTags)})
	}
	return s.putTags(ctx, p, in.RunID, in.RequestID, vs, func([]string) ([]string, error) { return tags, nil })
}

// ChangeTags adds tags to a run, removes others, and returns all its tags. A tag that is added and removed is
// removed. The tags are read and written in one transaction, so that concurrent changes lose nothing. It is audited
// unless nothing changed. Errors: NOT_FOUND, FORBIDDEN without ANNOTATE, BAD_USER_INPUT, also when the run would have
// more than store.MaxTags tags.
func (s *Annotator) ChangeTags(ctx context.Context, p authz.Principal, in ChangeTags) (TaggedRun, error) {
	vs := checkTags(control.CheckID(nil, "requestId", in.RequestID), "add", in.Add)
	for _, list := range []struct {
		path string
		tags []string
	}{{"add", in.Add}, {"remove", in.Remove}} {
		if len(list.tags) > store.MaxTags {
			vs = append(vs, plan.Violation{Path: list.path, Code: plan.CodeRange,
				Message: fmt.Sprintf("must be at most %d", store.MaxTags)})
		}
	}
	return s.putTags(ctx, p, in.RunID, in.RequestID, vs, func(before []string) ([]string, error) {
		tags := slices.DeleteFunc(append(slices.Clone(before), in.Add...), func(tag string) bool {
			return slices.Contains(in.Remove, tag)
		})
		slices.Sort(tags)
		if tags = slices.Compact(tags); len(tags) > store.MaxTags {
			return nil, control.BadInput([]plan.Violation{{Path: "add", Code: plan.CodeRange,
				Message: fmt.Sprintf("gives the run %d tags; at most %d are allowed", len(tags), store.MaxTags)}})
		}
		return tags, nil
	})
}

// checkTags adds a violation for each tag that has the wrong form.
func checkTags(vs []plan.Violation, path string, tags []string) []plan.Violation {
	for i, tag := range tags {
		if !tagPattern.MatchString(tag) {
			vs = append(vs, plan.Violation{Path: fmt.Sprintf("%s[%d]", path, i), Code: "INVALID",
				Message: "must be key or key:value; a key has at most 32 of a-z 0-9 _ . - and a value at most 64 of A-Z a-z " +
					"0-9 _ . / @ -, and both begin with a letter or digit"})
		}
	}
	return vs
}

// putTags stores the tags that change returns for those that the run has, and returns them. It reads and writes under
// the lock of the run. vs are the violations of the request.
func (s *Annotator) putTags(ctx context.Context, p authz.Principal, runID, requestID string, vs []plan.Violation,
	change func(before []string) ([]string, error)) (out TaggedRun, _ error) {
	if err := s.check(ctx, p, store.AuditRow{Action: string(authz.Annotate), RunID: runID,
		RequestID: requestID}, vs); err != nil {
		return out, err
	}
	err := s.store.InRun(ctx, runID, func(tx store.RunTx) error {
		out.Change = control.Change{}
		before, err := tx.Tags(ctx)
		if err != nil {
			return err
		}
		if out.Tags, err = change(before); err != nil || slices.Equal(before, out.Tags) {
			return err
		}
		if err := tx.PutTags(ctx, out.Tags); err != nil {
			return err
		}
		out.Change = control.Change{Action: ActionTagRun, RequestID: requestID, Actor: p.ID, At: s.rights.Now()}
		return s.audit(ctx, tx, p, store.AuditRow{Action: ActionTagRun, RunID: runID, RequestID: requestID},
			map[string][]string{"before": before, "after": out.Tags})
	})
	return out, control.Translate(err)
}

// AddNote adds a note to a run. A repetition with the same requestId returns the note of the first call. Errors:
// NOT_FOUND, FORBIDDEN without ANNOTATE, REQUEST_ID_CONFLICT when the requestId added another text, BAD_USER_INPUT,
// also when the run has store.MaxNotes notes.
func (s *Annotator) AddNote(ctx context.Context, p authz.Principal, in NoteRun) (out store.Note, err error) {
	vs := control.CheckID(nil, "requestId", in.RequestID)
	if in.Body == "" || len(in.Body) > MaxNoteBytes {
		vs = append(vs, plan.Violation{Path: "body", Code: "INVALID",
			Message: fmt.Sprintf("must have 1 to %d bytes", MaxNoteBytes)})
	}
	vs = control.CheckText(vs, "body", in.Body)
	if err := s.check(ctx, p, store.AuditRow{Action: string(authz.Annotate), RunID: in.RunID,
		RequestID: in.RequestID}, vs); err != nil {
		return out, err
	}
	err = s.store.InRun(ctx, in.RunID, func(tx store.RunTx) error {
		note, isNew, err := tx.AddNote(ctx, store.Note{Author: p.ID, Body: in.Body, RequestID: in.RequestID})
		out = note
		switch {
		case err != nil:
			return err
		case !isNew && note.Body != in.Body:
			return control.Refuse(run.CodeRequestConflict, "This requestId was used for another note. Use a new request id.")
		case !isNew:
			return nil
		}
		return s.audit(ctx, tx, p, store.AuditRow{Action: ActionNoteRun, RunID: in.RunID, RequestID: in.RequestID},
			map[string]any{"note": note.No, "body": note.Body})
	})
	if errors.Is(err, store.ErrTooMany) {
		return out, control.BadInput([]plan.Violation{{Path: "body", Code: plan.CodeRange,
			Message: fmt.Sprintf("cannot be added: the run has %d notes, which is the limit", store.MaxNotes)}})
	}
	return out, control.Translate(err)
}

// check returns NOT_FOUND, FORBIDDEN, or BAD_USER_INPUT for vs, in this order.
func (s *Annotator) check(ctx context.Context, p authz.Principal, row store.AuditRow, vs []plan.Violation) error {
	if err := s.rights.MayOperate(ctx, p, row); err != nil {
		return err
	}
	if len(vs) > 0 {
		return control.BadInput(vs)
	}
	return nil
}

func (s *Annotator) audit(ctx context.Context, tx store.RunTx, p authz.Principal, row store.AuditRow,
	detail any) error {
	doc, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(doc))
	return tx.Audit(ctx, row)
}
