package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SenderSettings are how a BulkSender leases bulks, and what wakes it.
type SenderSettings struct {
	LeaseTTL time.Duration // 30 s (O5)
	Wake     chan struct{}
}

// BulkWorkStore leases bulks and settles their rows.
type BulkWorkStore interface {
	BulkRows(ctx context.Context, f store.BulkRowFilter) ([]store.BulkRow, error)
	LeaseBulks(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.Bulk, error)
	ReleaseBulk(ctx context.Context, b store.Bulk, delay time.Duration) error
	SettleBulkRows(ctx context.Context, b store.Bulk, s store.BulkSettlement, ttl time.Duration) (store.Bulk, error)
	WaitingBulkRows(ctx context.Context, id string, limit int) ([]store.BulkRow, store.BulkPause, error)
	Receipt(ctx context.Context, runID string, signalID string) (run.Receipt, error)
}

// Sender sends the signals of bulks. It is safe for concurrent use.
type Sender struct {
	rights     *control.Rights
	store      BulkWorkStore
	signaller  *runs.Signaller
	background *control.Background
	settings   SenderSettings
	sent       *prometheus.CounterVec
}

// NewSender makes a Sender.
func NewSender(rights *control.Rights, store BulkWorkStore, signaller *runs.Signaller, background *control.Background,
	settings SenderSettings, sent *prometheus.CounterVec) *Sender {
	return &Sender{rights: rights, store: store, signaller: signaller, background: background, settings: settings,
		sent: sent}
}

const (
	bulksAtOnce = 4  // that one server sends
	bulkRound   = 16 // signals of one bulk that are sent at once
	// bulkTurn is how long a bulk is worked on before others have their turn.
	bulkTurn = 2 * time.Second
	// bulkLife is how long a row may wait for what paces it; then that is its outcome.
	bulkLife = 24 * time.Hour
	// The pause before a row that had to wait is tried again.
	bulkPauseLeast, bulkPauseMost = 100 * time.Millisecond, 30 * time.Second
	bulkStoreRetry                = 500 * time.Millisecond
)

// SendBulks sends the signals of bulks until ctx ends: 16 of a bulk at once, those of a bulk by one server at a time. A
// signal's id follows from the bulk and the number of its row, so that what is sent again after a crash has one effect,
// and each is decided under the fence of its bulk, so that a server that slept past its lease sends nothing more. A row
// that must wait (SIGNAL_RATE_LIMITED, STORE_UNAVAILABLE, …) is tried again, and the bulk goes on.
func (s *Sender) SendBulks(ctx context.Context, owner string) error {
	return s.background.Loop(ctx, s.settings.Wake, func(ctx context.Context) (bool, error) {
		leased, err := s.store.LeaseBulks(ctx, owner, s.settings.LeaseTTL, bulksAtOnce)
		var more atomic.Bool
		control.DoConcurrently(leased, func(b store.Bulk) {
			var wait time.Duration
			err := s.background.Panics.Call(control.DutyBulk, b.ID, func() (err error) {
				wait, err = s.sendBulk(ctx, b)
				return err
			})
			if err != nil {
				wait = max(wait, bulkStoreRetry)
			}
			if err := s.releaseBulk(ctx, b, wait); err == nil && wait == 0 {
				more.Store(true)
			}
			if err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
				s.rights.Log.WarnContext(ctx, "bulk not sent", slog.String("bulkId", b.ID), slog.Any("error", err))
			}
		})
		return more.Load(), err
	})
}

// releaseBulk gives a lease back, also when this server is stopping. A bulk that is finished, or whose fence moved,
// has none to give, and what cannot be given back ends by itself.
func (s *Sender) releaseBulk(ctx context.Context, b store.Bulk, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bulkTurn)
	defer cancel()
	return s.store.ReleaseBulk(ctx, b, wait)
}

// sendBulk works on a leased bulk for a turn, and says for how long there is nothing more to do; with an error 0
// where the store may do better soon.
func (s *Sender) sendBulk(ctx context.Context, b store.Bulk) (time.Duration, error) {
	j := &bulkJob{s: s, bulk: b}
	var asker bulkAsker
	if err := errors.Join(json.Unmarshal(b.Principal, &asker), json.Unmarshal(b.Action, &j.action)); err != nil {
		return bulkPauseMost, err
	}
	j.asker = authz.Principal{
		ID: asker.ID, TenantID: asker.TenantID, ExpiresAt: asker.ExpiresAt, TokenID: asker.TokenID,
		SessionID: asker.SessionID,
		Provider:  asker.Provider, Groups: asker.Groups, Address: asker.Address, Via: asker.Via,
	}
	size := bulkRound
	if b.Paced != "" {
		size = 1 // what paced it may have passed, or not
	}
	for turn := s.rights.Now().Add(bulkTurn); s.rights.Now().Before(turn); {
		if b.StoppedAt != nil {
			size = store.MaxPage // nothing is sent
		}
		var rows []store.BulkRow
		var next store.BulkPause
		var err error
		if err = s.patiently(ctx, func() (err error) {
			rows, next, err = s.store.WaitingBulkRows(ctx, b.ID, size)
			return err
		}); err != nil {
			return 0, err
		}
		if len(rows) == 0 {
			wait := max(bulkPauseLeast, min(next.For, bulkPauseMost))
			if next.Code != "" && b.Paced == "" {
				_, err = s.settleBulk(ctx, b, store.BulkSettlement{Pause: next})
			}
			if err != nil {
				return 0, err
			}
			return wait, nil
		}
		st, done := store.BulkSettlement{}, len(rows)
		if b.StoppedAt == nil {
			st, done = j.round(ctx, rows)
		} else if st.Ends, err = j.leave(ctx, rows); err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, ctx.Err() // what was accepted is found when it is sent again
		}
		after, err := s.settleBulk(ctx, b, st)
		switch {
		case err != nil:
			return 0, err
		case after.FinishedAt != nil:
			return bulkPauseMost, nil
		case done == 0:
			return st.Pause.For, nil
		case st.Pause.Code != "":
			size = done
		case after.StoppedAt != nil:
		default:
			size = min(2*size, bulkRound)
		}
		b = after
	}
	return 0, nil
}

// settleBulk keeps what became of a round.
func (s *Sender) settleBulk(ctx context.Context, b store.Bulk, st store.BulkSettlement) (after store.Bulk,
	err error) {
	err = s.patiently(ctx, func() (err error) {
		after, err = s.store.SettleBulkRows(ctx, b, st, s.settings.LeaseTTL)
		return err
	})
	if err != nil {
		return store.Bulk{}, err
	}
	for _, e := range st.Ends {
		s.sent.WithLabelValues(string(e.Outcome)).Inc()
	}
	return after, nil
}

// patiently tries again while the store does not answer, as long as a lease may hold: so a bulk goes on when the
// store is back, and what is known is not found out twice.
func (s *Sender) patiently(ctx context.Context, f func() error) error {
	for left := s.settings.LeaseTTL; ; left -= bulkStoreRetry {
		err := f()
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrOverloaded) || left <= 0 ||
			!control.Sleep(ctx, nil, bulkStoreRetry) {
			return err
		}
	}
}

// bulkJob is one bulk that is being sent.
type bulkJob struct {
	s      *Sender
	bulk   store.Bulk
	asker  authz.Principal
	action bulkAction
}

// round sends the signals of some rows at once, and counts those that have their outcome. It says nothing of rows whose
// bulk was stopped or taken over meanwhile.
func (j *bulkJob) round(ctx context.Context, rows []store.BulkRow) (st store.BulkSettlement, done int) {
	var mu sync.Mutex
	control.DoConcurrently(rows, func(r store.BulkRow) {
		end, held := store.BulkEnd{No: r.No, Outcome: store.BulkRefused, Code: run.CodeInternal,
			Message: "dvt has a fault: sending this signal panicked."}, true
		_ = j.s.background.Panics.Call(control.DutyBulk, r.RunID, func() error {
			end, held = j.send(ctx, r)
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		if !held {
			return
		}
		st.Ends = append(st.Ends, end)
		if end.Outcome != store.BulkWaiting {
			done++
		} else if st.Pause.Code == "" || end.Delay < st.Pause.For {
			st.Pause = store.BulkPause{Code: end.Code, For: end.Delay}
		}
	})
	return st, done
}

// leave says what became of rows of a bulk that was stopped: a dead server may have sent one and not noted it.
func (j *bulkJob) leave(ctx context.Context, rows []store.BulkRow) ([]store.BulkEnd, error) {
	f := store.BulkRowFilter{BulkID: j.bulk.ID}
	for _, r := range rows {
		f.Nos = append(f.Nos, r.No)
	}
	err := j.s.patiently(ctx, func() (err error) {
		rows, err = j.s.store.BulkRows(ctx, f)
		return err
	})
	ends := make([]store.BulkEnd, len(rows))
	for i, r := range rows {
		switch ends[i] = (store.BulkEnd{No: r.No, Outcome: store.BulkNotSent}); {
		case r.Receipt != nil && r.Receipt.Rejected:
			ends[i].Outcome = store.BulkRejected
		case r.Receipt != nil:
			ends[i].Outcome = store.BulkAccepted
		}
	}
	return ends, err
}

// send sends the signal of one row and says what came back; false when the bulk is no longer held, and so nothing was
// sent.
func (j *bulkJob) send(ctx context.Context, r store.BulkRow) (end store.BulkEnd, held bool) {
	rc, err := j.signal(ctx, r)
	if errors.Is(err, store.ErrConflict) {
		return end, false
	}
	var own *control.Error
	if errors.As(err, &own) && (own.Code == run.CodeForbidden || own.Code == run.CodeNotFound) {
		// It was sent before a crash, when that was still allowed: what was accepted stays so.
		if known, lookErr := j.s.store.Receipt(ctx, r.RunID, r.SignalID); lookErr == nil {
			rc, err = runs.SignalReceipt{Receipt: known}, nil
		} else if !errors.Is(lookErr, store.ErrNotFound) {
			err = control.Translate(lookErr)
		}
	}
	end = store.BulkEnd{No: r.No, Outcome: store.BulkAccepted}
	switch {
	case err == nil && rc.Rejected:
		end.Outcome = store.BulkRejected
	case err == nil:
	case errors.As(err, &own):
		end.Outcome, end.Code, end.Message = store.BulkRefused, own.Code, control.Clip(own.Message)
		if mustWait(own.Code) && j.s.rights.Now().Sub(j.bulk.CreatedAt) < bulkLife {
			end.Outcome, end.Delay = store.BulkWaiting, max(bulkPauseLeast, min(own.RetryAfter, bulkPauseMost))
		}
		if own.Code == run.CodeInternal {
			j.s.rights.Log.WarnContext(ctx, "signal of a bulk not sent", slog.String("bulkId", j.bulk.ID),
				slog.Int("row", r.No),
				slog.Any("error", own.Unwrap()))
		}
	default: // the context's end
		end.Outcome, end.Code, end.Delay = store.BulkWaiting, run.CodeUnavailable, bulkPauseLeast
	}
	return end, true
}

// mustWait reports whether a row with the code is tried again.
func mustWait(c run.Code) bool {
	return c == run.CodeSignalRate || c == run.CodeStoreUnavailable || c == run.CodeStoreOverloaded ||
		c == run.CodeUnavailable
}

// signal is SignalRun with the rights that the asker has now. What it may not do leaves a row in the
// audit, and nothing in the log of the run: a bulk would flood it.
func (j *bulkJob) signal(ctx context.Context, r store.BulkRow) (runs.SignalReceipt, error) {
	s, action := j.s, authz.Action(j.action.Signal.Type)
	alive, err := s.rights.Authz.Alive(j.asker)
	if err != nil {
		return runs.SignalReceipt{}, control.Translate(err)
	}
	audit := store.AuditRow{Action: string(action), RunID: r.RunID, SignalID: r.SignalID, Code: run.CodeForbidden}
	if !alive {
		s.rights.AuditDenied(ctx, j.asker, audit)
		return runs.SignalReceipt{}, control.Refuse(
			run.CodeForbidden, "The account, token or session that asked for the bulk is no longer good.")
	}
	of, err := s.rights.Visible(ctx, j.asker, action, r.RunID)
	if err != nil {
		return runs.SignalReceipt{}, err
	}
	rights, err := s.rights.Authz.Decide(j.asker, action, control.ObjectOf(of.Identity))
	if err != nil {
		return runs.SignalReceipt{}, control.Translate(err)
	}
	if !rights.Allowed {
		s.rights.AuditDenied(ctx, j.asker, audit)
		return runs.SignalReceipt{}, s.rights.DenialError(j.asker, action, control.ObjectOf(of.Identity), rights)
	}
	in := runs.SignalRun{RunID: r.RunID, Signal: j.action.Signal, Payload: j.action.Payload, Reason: j.action.Reason}
	in.Signal.ID = r.SignalID
	if err := s.signaller.Checker.CheckSignal(ctx, of, in, true); err != nil {
		return runs.SignalReceipt{}, control.Translate(err)
	}
	return s.signaller.DecideSignal(ctx, j.asker, of, in, rights, &j.bulk)
}

// NewRowsSent registers the counter of the rows of bulks with r.
func NewRowsSent(r prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_bulk_rows_total", Help: "Signals of bulks by outcome; WAITING counts each time that one has to wait.",
	}, []string{"outcome"})
	for _, o := range []store.BulkOutcome{store.BulkWaiting, store.BulkAccepted, store.BulkRejected, store.BulkRefused,
		store.BulkNotSent} {
		c.WithLabelValues(string(o))
	}
	if r != nil {
		r.MustRegister(c)
	}
	return c
}
