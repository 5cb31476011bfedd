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

// Redriver publishes a dead letter again and marks it as redriven. After an error the dead letter stays open.
// live.ErrRefused means that the bus refused the message again.
type Redriver interface {
	Redrive(ctx context.Context, d DeadLetter) error
}

// MaxRedrive is the maximum number of dead letters that one RedriveDeadLetters publishes.
const MaxRedrive = 200

// RedriveDeadLetters asks to publish dead letters again. Exactly one of IDs, RunID (all open ones of a run) and AllOpen
// is set.
type RedriveDeadLetters struct {
	RequestID string
	IDs       []string // at most MaxRedrive
	RunID     string
	AllOpen   bool
}

// RedrivenDeadLetters has the result for each dead letter, in the order of IDs, else newest first.
type RedrivenDeadLetters struct {
	Results []RedriveResult
	More    bool // more than MaxRedrive dead letters were open
}

// RedriveResult is the result for one dead letter.
type RedriveResult struct {
	ID      string
	Letter  *DeadLetter    // nil when there is none
	Already bool           // it was redriven before and not published again
	Failed  *control.Error // why it is still open
}

// RedriveDeadLetters publishes dead letters again. Consumers ignore messages that they have seen, so viewers see
// nothing twice (contract T123, O04). A dead letter that was redriven is not published again, so the call is safe to
// repeat. The audit rows are written before anything is published. Errors: BAD_USER_INPUT; FORBIDDEN; NOT_FOUND for a
// run that the caller may not see; NOT_SUPPORTED on a server without a publisher; errors of the store. A failure of one
// dead letter is in its result.
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
	out, err := s.selectLetters(ctx, p, in)
	if err != nil {
		return RedrivenDeadLetters{}, err
	}
	if err := s.auditRedrive(ctx, p, in, out.Results); err != nil {
		return RedrivenDeadLetters{}, control.Translate(err)
	}
	var down *control.Error // the failure of the bus, for the remaining letters
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

// selectLetters reads the selected dead letters.
func (s *DeadLetterDesk) selectLetters(ctx context.Context, p authz.Principal,
	in RedriveDeadLetters) (out RedrivenDeadLetters, err error) {
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

// auditRedrive writes one row for each open dead letter. A repeated request writes the same rows.
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

// redrive publishes one dead letter and reads it again. A failure of the bus, rather than of the message, has a
// RetryAfter.
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
	e := control.Refuse(run.CodeUnavailable, "The bus does not answer. The dead letter is unchanged; try again.")
	e.RetryAfter = 2 * time.Second
	return e, nil
}
