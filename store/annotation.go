package store

import (
	"context"
	"time"
)

// Annotations reads what people attached to runs: tags and notes. The log does not have them, because they are no facts
// of the execution and no engine reads them (decision 64).
type Annotations interface {
	// ListTags reads the tags of those of at most MaxPage runs that are in the scope of f, which is its tenant, projects,
	// environment and scopes, by run id and sorted. Runs without tags are absent.
	ListTags(ctx context.Context, f RunFilter, runIDs []string) (map[string][]string, error)
	// CountNotes counts the notes of those of at most MaxPage runs that are in the scope of f, as ListTags, by run id.
	// Runs without notes are absent.
	CountNotes(ctx context.Context, f RunFilter, runIDs []string) (map[string]int, error)
	// ListNotes reads the notes of a run, the oldest first; at most MaxNotes exist.
	ListNotes(ctx context.Context, runID string) ([]Note, error)
}

// Limits of what people may attach to one run.
const (
	MaxTags  = 20
	MaxNotes = 100
)

// Note is a text that a person attached to a run. It never changes.
type Note struct {
	RunID     string
	No        int64 // grows within the run; set by the store
	Author    string
	Body      string
	RequestID string
	At        time.Time // set by the store
}

// AnnotationTx changes the tags and notes of the locked run.
type AnnotationTx interface {
	// Tags reads the tags of the run, sorted.
	Tags(ctx context.Context) ([]string, error)
	// PutTags replaces the tags of the run. ErrTooMany for more than MaxTags distinct tags.
	PutTags(ctx context.Context, tags []string) error
	// AddNote adds a note and returns it and true. If its author added one with the same RequestID before, it adds
	// nothing and returns that one and false. ErrTooMany when the run has MaxNotes.
	AddNote(ctx context.Context, n Note) (Note, bool, error)
}

// SavedViews stores views of lists that people saved.
type SavedViews interface {
	// ListViews lists the views of f.Owner and those that others share with one of the projects of f, by name; at most
	// 2*MaxPage.
	ListViews(ctx context.Context, f ViewFilter) ([]SavedView, error)
	// PutView inserts or replaces a view by its tenant, owner and id, in one transaction with the audit rows. ErrTooMany
	// when the owner has MaxViews others.
	PutView(ctx context.Context, v SavedView, audit ...AuditRow) (SavedView, error)
	// DeleteView removes a view, in one transaction with the audit rows; ErrNotFound.
	DeleteView(ctx context.Context, tenantID, owner, id string, audit ...AuditRow) error
}

// MaxViews limits the saved views of one owner.
const MaxViews = 100

// SavedView is a named query of a list.
type SavedView struct {
	TenantID  string
	Owner     string // the principal that saved it
	ID        string
	ProjectID string // the project that it is shared with; "": its owner's alone
	Name      string
	Query     string
	At        time.Time // of its last change, set by the store
}

// ViewFilter selects views of one tenant.
type ViewFilter struct {
	TenantID   string
	Owner      string
	ProjectIDs []string // shared views of these projects; nil: of all
}
