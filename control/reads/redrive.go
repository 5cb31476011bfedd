package reads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Redriver publishes a dead letter again and marks it. An error leaves the letter
// open; live.ErrRefused says that the bus still will not take this one.
type Redriver interface {
	Redrive(ctx context.Context, d DeadLetter) error
}

// MaxRedrive is the most dead letters of one RedriveDeadLetters.
const MaxRedrive = 200

// RedriveDeadLetters asks to publish dead letters again: exactly one of IDs, RunID
// (the open ones of a run) and AllOpen is given.
type RedriveDeadLetters struct {
	RequestID string
	IDs       []string // at most MaxRedrive
	RunID     string
	AllOpen   bool
}

// RedrivenDeadLetters is what became of each letter, in the order of IDs, else
// newest first.
type RedrivenDeadLetters struct {
	Results []RedriveResult
	More    bool // letters beyond MaxRedrive are open
}

// RedriveResult is what became of one letter.
type RedriveResult struct {
	ID      string
	Letter  *DeadLetter    // nil when there is none
	Already bool           // it was redriven before and was left alone
	Failed  *control.Error // it is still open
}

// RedriveDeadLetters publishes dead letters again. It loses nothing and repeats
// nothing that anyone would show: consumers ignore what they have seen (T123, O04).
// A letter that was redriven is left alone, so that it is safe to repeat. Who
// asked is in the audit before anything is published.
func (s *DeadLetterDesk) RedriveDeadLetters(ctx context.Context, p authz.Principal, in RedriveDeadLetters) (
	RedrivenDeadLetters, error) {
	if err := checkRedrive(in); err != nil {
		return RedrivenDeadLetters{}, err
	}
	row := store.AuditRow{Action: string(authz.Redrive), RunID: in.RunID, RequestID: in.RequestID}
	if err := s.rights.MayOperate(ctx, p, row); err != nil {
		return RedrivenDeadLetters{}, err
	}
	if s.redriver == nil {
		return RedrivenDeadLetters{}, control.Refuse(run.CodeNotSupported, "This server does not publish.")
	}
	out, err := s.chosen(ctx, p, in)
	if err != nil {
		return RedrivenDeadLetters{}, err
	}
	if err := s.auditRedrive(ctx, p, in, out.Results); err != nil {
		return RedrivenDeadLetters{}, control.Translate(err)
	}
	var down *control.Error // what ended the bus for the letters that are left
	done := map[string]bool{}
	for i := range out.Results {
		r := &out.Results[i]
		switch {
		case r.Letter == nil:
			r.Failed = deadLetterNotFound()
		case r.Letter.RedrivenAt != nil || done[r.ID]:
			r.Already = true
		case down != nil:
			r.Failed = down
		default:
			r.Failed, err = s.redrive(ctx, p, r)
			if err != nil {
				return RedrivenDeadLetters{}, err
			}
			done[r.ID] = r.Failed == nil
			if r.Failed != nil && r.Failed.RetryAfter > 0 {
				down = r.Failed
			}
		}
	}
	return out, nil
}

func checkRedrive(in RedriveDeadLetters) error {
	vs := control.CheckID(nil, "requestId", in.RequestID)
	given := 0
	for _, is := range []bool{in.IDs != nil, in.RunID != "", in.AllOpen} {
		if is {
			given++
		}
	}
	if given != 1 {
		vs = append(vs, plan.Violation{Path: "letters", Code: "INVALID",
			Message: "give exactly one of ids, runId and allOpen: true"})
	}
	if n := len(in.IDs); in.IDs != nil && (n == 0 || n > MaxRedrive) {
		vs = append(vs, plan.Violation{Path: "letters.ids", Code: "RANGE", Message: fmt.Sprintf("must be 1 to %d ids",
			MaxRedrive)})
	}
	if len(vs) > 0 {
		return control.BadInput(vs)
	}
	return nil
}

// chosen reads the letters that are meant.
func (s *DeadLetterDesk) chosen(ctx context.Context, p authz.Principal, in RedriveDeadLetters) (out RedrivenDeadLetters,
	err error) {
	for _, id := range in.IDs {
		r := RedriveResult{ID: id}
		d, found, err := s.deadLetter(ctx, p, id)
		if err != nil {
			return out, err
		}
		if found {
			r.Letter = &d
		}
		out.Results = append(out.Results, r)
	}
	if in.IDs != nil {
		return out, nil
	}
	letters, err := s.store.DeadLetters(ctx, store.DeadLetterFilter{TenantID: p.TenantID, RunID: in.RunID, Open: true,
		Limit: MaxRedrive + 1})
	if err != nil {
		return out, control.Translate(err)
	}
	for i := range letters[:min(MaxRedrive, len(letters))] {
		out.Results = append(out.Results, RedriveResult{ID: letters[i].ID, Letter: &letters[i]})
	}
	out.More = len(letters) > MaxRedrive
	return out, nil
}

// auditRedrive writes one row for each open letter. A repeated request has the
// same rows.
func (s *DeadLetterDesk) auditRedrive(ctx context.Context, p authz.Principal, in RedriveDeadLetters,
	rs []RedriveResult) error {
	var rows []store.AuditRow
	for _, r := range rs {
		if r.Letter == nil || r.Letter.RedrivenAt != nil {
			continue
		}
		d := *r.Letter
		name := fmt.Sprintf("%s/%s/%s/%s", p.TenantID, p.ID, in.RequestID, d.ID)
		row := store.AuditRow{
			ID:     uuid.NewSHA1(uuid.NameSpaceURL, []byte("dvt:redrive/"+name)).String(),
			Action: string(authz.Redrive), RunID: d.RunID, Outcome: "ACCEPTED", RequestID: in.RequestID,
			Detail: fmt.Appendf(nil, `{"deadLetterId":%q,"fromSeq":%d,"toSeq":%d}`, d.ID, d.From, d.To),
		}
		control.NameActor(p, &row)
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	return s.rights.Store.Audit(ctx, rows...)
}

// redrive publishes one letter and reads it anew. A failure that concerns the bus,
// not the letter, says when to come back.
func (s *DeadLetterDesk) redrive(ctx context.Context, p authz.Principal, r *RedriveResult) (*control.Error, error) {
	err := s.redriver.Redrive(ctx, *r.Letter)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil {
		d, found, err := s.deadLetter(ctx, p, r.ID)
		if found {
			r.Letter = &d
		}
		return nil, err
	}
	s.rights.Log.WarnContext(ctx, "dead letter not redriven", slog.String("id", r.ID), slog.Any("error", err))
	switch {
	case errors.Is(err, live.ErrRefused):
		return control.Refuse(run.CodeUnavailable, "The bus still refuses this message: %s", r.Letter.Cause), nil
	case errors.Is(err, store.ErrNotFound):
		return control.RunNotFound(), nil
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrOverloaded):
		return nil, control.Translate(err)
	}
	e := control.Refuse(run.CodeUnavailable, "The bus does not answer. The letter is as it was; try again.")
	e.RetryAfter = 2 * time.Second
	return e, nil
}
