// Package bulk does one action on many runs, a signal to each or a rerun of each: the request, its preview, the sender,
// and the results.
package bulk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BulkStore writes bulks.
type BulkStore interface {
	PutBulk(ctx context.Context, b store.NewBulk) (store.Bulk, bool, error)
	Bulk(ctx context.Context, id string) (store.Bulk, error)
	StopBulk(ctx context.Context, id string, audit store.AuditRow) (store.Bulk, bool, error)
}

// Requester makes and stops bulks. It is safe for concurrent use.
type Requester struct {
	rights  *control.Rights
	store   BulkStore
	reader  *Reader
	checker *runs.SignalChecker
	starter *runs.Starter
	Wake    chan struct{}
}

// NewRequester makes a Requester.
func NewRequester(rights *control.Rights, store BulkStore, reader *Reader, checker *runs.SignalChecker,
	starter *runs.Starter) *Requester {
	return &Requester{rights: rights, store: store, reader: reader, checker: checker, starter: starter,
		Wake: make(chan struct{}, 1)}
}

// Limits of bulks.
const (
	MaxBulk      = store.MaxBulk // runs of one bulk
	maxOpenBulks = 5             // unfinished bulks of one principal
	maxKeptBulks = 50            // bulks of one principal that are kept with their rows
)

// actionBulk is the action of a bulk in the audit. The signal to each run is audited under its own action.
const actionBulk authz.Action = "SIGNAL_RUNS"

// SignalRuns asks for one action on many runs: to send a signal to each, or to rerun each.
type SignalRuns struct {
	RequestID     string
	Runs          BulkRuns
	Signal        runs.SignalRun // without a run and an id; ignored when Rerun is set
	Rerun         *runs.Rerun    // without a run and a request id
	Reason        string
	ExpectedCount int
}

// BulkRuns selects runs. Exactly one member is set.
type BulkRuns struct {
	IDs      []string           `json:"ids,omitempty"`
	Filter   *control.RunFilter `json:"filter,omitempty"`
	FailedOf string             `json:"failedOf,omitempty"` // id of a bulk of the caller
}

// Bulk is one action on many runs.
type Bulk struct {
	store.Bulk
	Action   authz.Action
	Signal   run.Signal // the zero value for a rerun
	Payload  json.RawMessage
	LeftOut  int           // number of selected runs that a rerun left out, because they had a newer rerun
	Progress *BulkProgress // nil when it was not counted
}

// BulkProgress is how far the accepted rows of a bulk have come: their receipts, and what became of their runs.
type BulkProgress struct {
	Applications BulkApplications
	Runs         BulkRunCounts
}

// BulkRunCounts counts the runs of accepted rows by their status now, for a rerun the new runs. Waiting runs have not
// started.
type BulkRunCounts struct{ Waiting, Running, Paused, Completed, Failed, Cancelled int }

// State is RUNNING, PACED, STOPPING, STOPPED or DONE.
func (b Bulk) State() string {
	switch {
	case b.FinishedAt != nil && b.NotSent > 0:
		return "STOPPED"
	case b.FinishedAt != nil:
		return "DONE"
	case b.StoppedAt != nil:
		return "STOPPING"
	case b.Paced != "":
		return "PACED"
	}
	return "RUNNING"
}

// BulkApplications counts accepted signals by how far they have come.
type BulkApplications struct{ Pending, Delivered, Applied, Noop, NotApplied int }

// MadeBulk is the result of SignalRuns. The bulk is durable before it is returned.
type MadeBulk struct {
	Bulk      Bulk
	Duplicate bool // an earlier identical request made the bulk
}

// bulkAsker is the stored form of the principal that requested a bulk. It has no rights: they are checked again for
// each run.
type bulkAsker struct {
	ID        string    `json:"id"`
	TenantID  string    `json:"tenantId"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	TokenID   string    `json:"tokenId,omitempty"`
	SessionID string    `json:"sessionId,omitempty"`
	Provider  string    `json:"provider,omitempty"`
	Groups    []string  `json:"groups,omitempty"`
	Address   string    `json:"address,omitempty"`
	Via       string    `json:"via,omitempty"`
}

// bulkAction is the stored form of the signal of a bulk.
type bulkAction struct {
	Signal  run.Signal      `json:"signal"`
	Payload json.RawMessage `json:"payload"`
	Reason  string          `json:"reason"`
	Rerun   *bulkRerun      `json:"rerun,omitempty"`   // set for a rerun, which has no signal
	LeftOut int             `json:"leftOut,omitempty"` // number of runs that have a newer rerun
}

// bulkRerun is the stored form of the rerun of a bulk.
type bulkRerun struct {
	From   run.RerunFrom   `json:"from"`
	Params json.RawMessage `json:"params,omitempty"`
	// AlreadyRerun is set to rerun also runs that have a newer rerun.
	AlreadyRerun bool `json:"alreadyRerun,omitempty"`
}

func (a bulkAction) action() authz.Action {
	if a.Rerun != nil {
		return authz.Rerun
	}
	return authz.Action(a.Signal.Type)
}

// SignalRuns accepts a bulk. A rerun leaves out runs that have a newer rerun, unless it includes them. The set of runs
// is fixed when the request is accepted; p may READ all of them. Whether p
// may do the action on a run is decided when its signal is sent or its new run is created (SendBulks). The call is safe
// to repeat. Errors:
// BAD_USER_INPUT; SIGNAL_TOO_LARGE; BULK_MOVED when the selection no longer has ExpectedCount runs; BULK_TOO_LARGE;
// TOO_MANY_BULKS; REQUEST_ID_CONFLICT; NOT_FOUND for FailedOf; FORBIDDEN for a caller who may READ no run. Accepted
// bulks and refused selections are audited.
func (s *Requester) SignalRuns(ctx context.Context, p authz.Principal, in SignalRuns) (MadeBulk, error) {
	if err := s.checkBulk(ctx, in); err != nil {
		return MadeBulk{}, err
	}
	b, err := newBulk(p, in)
	if err != nil {
		return MadeBulk{}, control.Translate(err)
	}
	old, err := s.store.Bulk(ctx, b.ID)
	if err == nil {
		return repeatedBulk(old, b)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return MadeBulk{}, control.Translate(err)
	}
	chosen, err := s.reader.targets(ctx, p, in.Runs, in.Rerun)
	if err == nil {
		err = checkCount(in.ExpectedCount, len(chosen.runs))
	}
	if err != nil {
		return MadeBulk{}, s.rights.AuditRejected(ctx, p, store.AuditRow{Action: string(actionBulk),
			RequestID: in.RequestID,
			Reason:    in.Reason}, err)
	}
	b.Runs = chosen.runs
	if chosen.rerun > 0 {
		stored := actionOf(in)
		stored.LeftOut = chosen.rerun
		if b.Action, err = json.Marshal(stored); err != nil {
			return MadeBulk{}, control.Translate(err)
		}
	}
	action := authz.Action(in.Signal.Signal.Type)
	if in.Rerun != nil {
		b.Keys, action = rerunKeys(b), authz.Rerun
	}
	s.rights.Stamp(p, &b.Audit, "ACCEPTED", fmt.Sprintf(`{"bulkId":%q,"signal":%q,"runs":%d}`, b.ID, action, len(b.Runs)))
	made, fresh, err := s.store.PutBulk(ctx, b)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return MadeBulk{}, control.Later(
			control.Refuse(run.CodeTooManyBulks, "%d of your bulks are open; wait until one is done. Nothing was sent.",
				maxOpenBulks),
			5*time.Second)
	case err != nil:
		return MadeBulk{}, control.Translate(err)
	case !fresh:
		return repeatedBulk(made, b)
	}
	control.Wake(s.Wake)
	v, err := bulkView(made)
	return MadeBulk{Bulk: v}, err
}

// checkBulk checks everything that does not depend on the selected runs.
func (s *Requester) checkBulk(ctx context.Context, in SignalRuns) error {
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if in.ExpectedCount < 1 {
		vs = append(vs, plan.Violation{Path: "expectedCount", Code: plan.CodeRange,
			Message: "must be at least 1: the count that the preview gave"})
	}
	if err := s.checkBulkAction(ctx, in.Signal, in.Rerun); err != nil {
		var own *control.Error
		if !errors.As(err, &own) || own.Code != run.CodeBadInput {
			return err
		}
		vs = append(vs, own.Violations...)
	}
	if len(vs) > 0 {
		return control.BadInput(vs)
	}
	return nil
}

// checkBulkAction checks the action without a plan, because each run has its own.
func (s *Requester) checkBulkAction(ctx context.Context, in runs.SignalRun, rerun *runs.Rerun) error {
	if rerun != nil {
		return s.starter.CheckBulkRerun(*rerun)
	}
	if n, most := len(in.Payload), s.checker.Limits.MaxSignalBytes; n > most {
		e := control.Refuse(run.CodeSignalTooLarge, "The signal has %d bytes; at most %d are allowed in a bulk.", n, most)
		e.Limit = int64(most)
		return e
	}
	return s.checker.CheckSignal(ctx, store.Run{}, in, false)
}

// newBulk returns the bulk of a request without its runs. Its id is derived from the request, so that a repetition
// finds it.
func newBulk(p authz.Principal, in SignalRuns) (store.NewBulk, error) {
	asker, err := json.Marshal(bulkAsker{p.ID, p.TenantID, p.ExpiresAt, p.TokenID, p.SessionID, p.Provider, p.Groups,
		p.Address, p.Via})
	if err != nil {
		return store.NewBulk{}, err
	}
	action, err := json.Marshal(actionOf(in))
	if err != nil {
		return store.NewBulk{}, err
	}
	asked, err := json.Marshal([]any{in.Runs, json.RawMessage(action), in.Reason})
	sum := sha256.Sum256(asked)
	return store.NewBulk{
		Bulk: store.Bulk{
			ID: uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "dvt:bulk/%q/%q/%q", p.TenantID, p.ID,
				in.RequestID)).String(),
			TenantID: p.TenantID, Actor: p.ID, RequestID: in.RequestID, Fingerprint: hex.EncodeToString(sum[:]),
			Principal: asker, Action: action, Reason: in.Reason,
		},
		MostOpen: maxOpenBulks, Keep: maxKeptBulks,
		Audit: store.AuditRow{Action: string(actionBulk), RequestID: in.RequestID, Reason: in.Reason},
	}, err
}

func actionOf(in SignalRuns) bulkAction {
	if r := in.Rerun; r != nil {
		return bulkAction{Reason: cmp.Or(r.Reason, in.Reason), Rerun: &bulkRerun{
			From: run.RerunFrom{Start: r.Start, Failed: r.Failed, Steps: r.Steps}, Params: r.Params,
			AlreadyRerun: r.AlreadyRerun,
		}}
	}
	return bulkAction{Signal: in.Signal.Signal, Payload: in.Signal.Payload, Reason: cmp.Or(in.Signal.Reason, in.Reason)}
}

// rerunKeys returns the request keys of the new runs. They follow from the bulk and the row, so that a rerun that is
// repeated after a crash creates no second run, and the store finds the new run of each row.
func rerunKeys(b store.NewBulk) []string {
	out := make([]string, len(b.Runs))
	for i, r := range b.Runs {
		out[i] = string(run.RequestKey(r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion,
			store.BulkSignalID(b.ID, i+1)))
	}
	return out
}

// repeatedBulk answers a repeated request with the stored bulk. A different request with the same id is
// REQUEST_ID_CONFLICT.
func repeatedBulk(old store.Bulk, b store.NewBulk) (MadeBulk, error) {
	if old.Fingerprint != b.Fingerprint {
		return MadeBulk{}, control.Refuse(run.CodeRequestConflict, "This requestId was used for another bulk.")
	}
	v, err := bulkView(old)
	return MadeBulk{Bulk: v, Duplicate: true}, err
}

func checkCount(expected, count int) error {
	if expected == count {
		return nil
	}
	e := control.Refuse(run.CodeBulkMoved, "%s selected now, not %d. Look at the preview again. Nothing was sent.",
		control.Plural(count, "run is", "runs are"), expected)
	e.Count = count
	return e
}

func bulkView(b store.Bulk) (Bulk, error) {
	var a bulkAction
	err := json.Unmarshal(b.Action, &a)
	out := Bulk{Bulk: b, Action: a.action(), Signal: a.Signal, Payload: a.Payload, LeftOut: a.LeftOut}
	if a.Rerun != nil && err == nil {
		out.Payload, err = json.Marshal(a.Rerun)
	}
	return out, control.Translate(err)
}
