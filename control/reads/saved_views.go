package reads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Actions in audit rows about saved views.
const (
	ActionSaveView   = "SAVE_VIEW"
	ActionDeleteView = "DELETE_VIEW"
)

// Limits of a saved view.
const (
	MaxViewName  = 60   // characters
	MaxViewQuery = 2000 // bytes
)

// ViewKeeper keeps views of the list of runs: those of one principal, and those shared with a project. It is safe for
// concurrent use.
type ViewKeeper struct {
	rights *control.Rights
	store  store.SavedViews
}

// NewViewKeeper makes a ViewKeeper.
func NewViewKeeper(rights *control.Rights, store store.SavedViews) *ViewKeeper {
	return &ViewKeeper{rights: rights, store: store}
}

// SavedView is a named query of the list of runs.
type SavedView = store.SavedView

// SaveView asks to save a view of the caller. One with the same id is replaced.
type SaveView struct {
	ID        string
	ProjectID string // to share it with; "": it is the caller's alone
	Name      string
	Query     string
}

// SavedViews lists the views of p and those that others share with projects that p may read, by name.
func (s *ViewKeeper) SavedViews(ctx context.Context, p authz.Principal) ([]store.SavedView, error) {
	f := store.ViewFilter{TenantID: p.TenantID, Owner: p.ID, ProjectIDs: []string{}}
	if scope, ok := s.rights.Narrow(p, control.RunFilter{}); ok {
		f.ProjectIDs = scope.ProjectIDs
	}
	views, err := s.store.ListViews(ctx, f)
	return views, control.Translate(err)
}

// SaveView saves a view and returns it. Sharing takes ANNOTATE in some environment of the project. Errors:
// BAD_USER_INPUT, also for more than store.MaxViews views; FORBIDDEN.
func (s *ViewKeeper) SaveView(ctx context.Context, p authz.Principal, in SaveView) (store.SavedView, error) {
	vs := control.CheckID(nil, "id", in.ID)
	if n := len([]rune(in.Name)); n == 0 || n > MaxViewName {
		vs = append(vs, plan.Violation{Path: "name", Code: plan.CodeRange,
			Message: fmt.Sprintf("must have 1 to %d characters", MaxViewName)})
	}
	if len(in.Query) > MaxViewQuery {
		vs = append(vs, plan.Violation{Path: "query", Code: plan.CodeRange,
			Message: fmt.Sprintf("must have at most %d bytes", MaxViewQuery)})
	}
	if in.ProjectID != "" {
		vs = control.CheckID(vs, "projectId", in.ProjectID)
	}
	vs = control.CheckText(control.CheckText(vs, "name", in.Name), "query", in.Query)
	row := store.AuditRow{Action: ActionSaveView, RequestID: in.ID}
	if in.ProjectID != "" && !s.mayShare(p, in.ProjectID) {
		row.Code = run.CodeForbidden
		s.rights.AuditDenied(ctx, p, row)
		return store.SavedView{}, control.Refuse(run.CodeForbidden,
			"Sharing a view with the project %s takes the right %s there.", in.ProjectID, authz.Annotate)
	}
	if len(vs) > 0 {
		return store.SavedView{}, control.BadInput(vs)
	}
	detail, err := json.Marshal(map[string]string{"name": in.Name, "projectId": in.ProjectID})
	if err != nil {
		return store.SavedView{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	v, err := s.store.PutView(ctx, store.SavedView{TenantID: p.TenantID, Owner: p.ID, ID: in.ID, ProjectID: in.ProjectID,
		Name: in.Name, Query: in.Query}, row)
	if errors.Is(err, store.ErrTooMany) {
		return v, control.BadInput([]plan.Violation{{Path: "id", Code: plan.CodeRange,
			Message: fmt.Sprintf("cannot be added: you have %d views, which is the limit", store.MaxViews)}})
	}
	return v, control.Translate(err)
}

// DeleteView removes a view of p and returns the receipt. It is safe to repeat: the receipt is zero when there is no
// such view.
func (s *ViewKeeper) DeleteView(ctx context.Context, p authz.Principal, id string) (control.Change, error) {
	row := store.AuditRow{Action: ActionDeleteView, RequestID: id}
	s.rights.Stamp(p, &row, "ACCEPTED", `{}`)
	err := s.store.DeleteView(ctx, p.TenantID, p.ID, id, row)
	if errors.Is(err, store.ErrNotFound) {
		return control.Change{}, nil
	}
	if err != nil {
		return control.Change{}, control.Translate(err)
	}
	return control.Change{Action: row.Action, RequestID: id, Actor: p.ID, At: s.rights.Now()}, nil
}

// mayShare reports whether p may ANNOTATE in some environment of the project.
func (s *ViewKeeper) mayShare(p authz.Principal, projectID string) bool {
	return slices.ContainsFunc(s.rights.Authz.Grants(p), func(g authz.Grant) bool {
		d, err := s.rights.Authz.Decide(p, authz.Annotate, authz.Object{TenantID: p.TenantID, ProjectID: projectID,
			EnvironmentID: g.EnvironmentID})
		return err == nil && d.Allowed
	})
}
