package reads

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// DeadLetterStore reads dead letters.
type DeadLetterStore interface {
	DeadLetters(ctx context.Context, f store.DeadLetterFilter) ([]store.DeadLetter, error)
}

// DeadLetterDesk lists dead letters and publishes them again. It is safe for concurrent use.
type DeadLetterDesk struct {
	rights   *control.Rights
	store    DeadLetterStore
	redriver Redriver
}

// NewDeadLetterDesk makes a DeadLetterDesk.
func NewDeadLetterDesk(rights *control.Rights, store DeadLetterStore, redriver Redriver) *DeadLetterDesk {
	return &DeadLetterDesk{rights: rights, store: store, redriver: redriver}
}

// DeadLetter is a message that the bus refused too often and that is no longer retried.
type DeadLetter = store.DeadLetter

// DeadLettersQuery asks for a page of the dead letters of the caller's tenant, newest first.
type DeadLettersQuery struct {
	RunID string // "" for all runs
	Open  bool   // only those not redriven
	First int
	After string // id of the last dead letter of the page before
}

// DeadLettersPage is a page of dead letters, newest first.
type DeadLettersPage struct {
	Letters []DeadLetter
	HasNext bool
}

// DeadLetters reads a page of dead letters (contract T123). The caller needs READ_DEAD_LETTERS on the whole tenant, or
// on the scope of the run that it asks for. Errors: FORBIDDEN, BAD_USER_INPUT, NOT_FOUND for a run that the caller may
// not see, CURSOR_INVALID.
func (s *DeadLetterDesk) DeadLetters(ctx context.Context, p authz.Principal, q DeadLettersQuery) (DeadLettersPage,
	error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return DeadLettersPage{}, err
	}
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadDeadLetters),
		RunID: q.RunID}); err != nil {
		return DeadLettersPage{}, err
	}
	f := store.DeadLetterFilter{TenantID: p.TenantID, RunID: q.RunID, Open: q.Open, Before: q.After, Limit: n + 1}
	if q.After != "" {
		if _, found, err := s.deadLetter(ctx, p, q.After); err != nil || !found {
			if err == nil {
				err = control.CursorInvalid()
			}
			return DeadLettersPage{}, err
		}
	}
	letters, err := s.store.DeadLetters(ctx, f)
	if err != nil {
		return DeadLettersPage{}, control.Translate(err)
	}
	return DeadLettersPage{Letters: letters[:min(n, len(letters))], HasNext: len(letters) > n}, nil
}

// DeadLetter reads one dead letter. Errors: FORBIDDEN, NOT_FOUND, also for a dead letter of another tenant.
func (s *DeadLetterDesk) DeadLetter(ctx context.Context, p authz.Principal, id string) (DeadLetter, error) {
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadDeadLetters)}); err != nil {
		return DeadLetter{}, err
	}
	d, found, err := s.deadLetter(ctx, p, id)
	if err == nil && !found {
		err = deadLetterNotFound()
	}
	return d, err
}

func deadLetterNotFound() *control.Error {
	return control.Refuse(run.CodeNotFound, "There is no such dead letter, or it is not yours.")
}

// deadLetter reads a dead letter of p's tenant. found is false when there is none.
func (s *DeadLetterDesk) deadLetter(ctx context.Context, p authz.Principal, id string) (DeadLetter, bool, error) {
	letters, err := s.store.DeadLetters(ctx, store.DeadLetterFilter{TenantID: p.TenantID, ID: id, Limit: 1})
	if err != nil || len(letters) == 0 || id == "" {
		return DeadLetter{}, false, control.Translate(err)
	}
	return letters[0], true, nil
}
