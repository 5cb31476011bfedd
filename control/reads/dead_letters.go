package reads

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// DeadLetterStore reads the messages that the bus did not take.
type DeadLetterStore interface {
	DeadLetters(ctx context.Context, f store.DeadLetterFilter) ([]store.DeadLetter, error)
}

// DeadLetterDesk shows dead letters and publishes them again. It is safe for concurrent use.
type DeadLetterDesk struct {
	rights   *control.Rights
	store    DeadLetterStore
	redriver Redriver
}

// NewDeadLetterDesk makes a DeadLetterDesk.
func NewDeadLetterDesk(rights *control.Rights, store DeadLetterStore, redriver Redriver) *DeadLetterDesk {
	return &DeadLetterDesk{rights: rights, store: store, redriver: redriver}
}

// DeadLetter is a message that was given up.
type DeadLetter = store.DeadLetter

// DeadLettersQuery asks for a page of the caller's tenant's dead letters, newest first.
type DeadLettersQuery struct {
	RunID string // "" for every run
	Open  bool   // only those not redriven
	First int
	After string // id of the letter before the page
}

// DeadLettersPage is a page of dead letters, newest first.
type DeadLettersPage struct {
	Letters []DeadLetter
	HasNext bool
}

// DeadLetters reads a page of what the bus would not take (T123). It takes a role
// on the whole tenant, or on the place of the one run that is asked for. FORBIDDEN,
// NOT_FOUND for a run that is not the caller's, CURSOR_INVALID.
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

// DeadLetter reads one dead letter. NOT_FOUND also for another tenant's.
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

// deadLetter reads a letter of p's tenant.
func (s *DeadLetterDesk) deadLetter(ctx context.Context, p authz.Principal, id string) (DeadLetter, bool, error) {
	letters, err := s.store.DeadLetters(ctx, store.DeadLetterFilter{TenantID: p.TenantID, ID: id, Limit: 1})
	if err != nil || len(letters) == 0 || id == "" {
		return DeadLetter{}, false, control.Translate(err)
	}
	return letters[0], true, nil
}
