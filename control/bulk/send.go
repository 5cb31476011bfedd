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

// SenderSettings sets the leases of a Sender, the channel that wakes it, the counter of rows that it sent, and where
// it finds reruns.
type SenderSettings struct {
	LeaseTTL time.Duration // 30 s (contract O5)
	Wake     chan struct{}
	Sent     *prometheus.CounterVec
	Chains   runs.ChainStore
}

// BulkWorkStore leases bulks and records the outcomes of their rows.
type BulkWorkStore interface {
	BulkRows(ctx context.Context, f store.BulkRowFilter) ([]store.BulkRow, error)
	LeaseBulks(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.Bulk, error)
	ReleaseBulk(ctx context.Context, b store.Bulk, delay time.Duration) error
	SettleBulkRows(ctx context.Context, b store.Bulk, s store.BulkSettlement, ttl time.Duration) (store.Bulk, error)
	WaitingBulkRows(ctx context.Context, id string, limit int) ([]store.BulkRow, store.BulkPause, error)
	Receipt(ctx context.Context, runID string, signalID string) (run.SignalReceipt, error)
}

// Sender sends the signals of bulks and creates their reruns. It is safe for concurrent use.
type Sender struct {
	rights     *control.Rights
	store      BulkWorkStore
	signaller  *runs.Signaller
	starter    *runs.Starter
	background *control.Background
	settings   SenderSettings
}

// NewSender makes a Sender.
func NewSender(rights *control.Rights, store BulkWorkStore, signaller *runs.Signaller, starter *runs.Starter,
	background *control.Background, settings SenderSettings) *Sender {
	return &Sender{rights: rights, store: store, signaller: signaller, starter: starter, background: background,
		settings: settings}
}

const (
	bulksAtOnce = 4  // bulks that one server sends at once
	bulkRound   = 16 // signals of one bulk that are sent concurrently
	// bulkTurn is how long a sender works on a bulk before other bulks get their turn.
	bulkTurn = 2 * time.Second
	// bulkLife is how long a row may wait for a rate limit or an outage. After that the row is REFUSED.
	bulkLife = 24 * time.Hour
	// Limits of the pause before a waiting row is tried again.
	bulkPauseLeast, bulkPauseMost = 100 * time.Millisecond, 30 * time.Second
	// bulkQuotaPause is the shortest pause of a rerun that a quota refused: a slot in a queue frees no sooner.
	bulkQuotaPause = time.Second
	bulkStoreRetry = 500 * time.Millisecond
)

// SendBulks sends the signals of bulks until ctx ends. It sends at most 16 signals of a bulk concurrently, and only one
// server at a time sends those of a bulk. The id of a signal is derived from the bulk and the row number, so that a
// signal that is sent again after a crash has one effect. Each signal is decided under the fence of its bulk, so that a
// server that lost its lease sends nothing more. A row with a temporary error (SIGNAL_RATE_LIMITED, STORE_UNAVAILABLE,
// STORE_OVERLOADED, UNAVAILABLE) is tried again later, while the bulk goes on. owner names this process in leases.
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
				s.rights.Log.WarnContext(ctx, "signals of a bulk were not sent; they are tried again",
					slog.String("bulkId", b.ID), slog.Any("error", err))
			}
		})
		return more.Load(), err
	})
}

// releaseBulk releases a lease, also while this server is stopping. A finished bulk or a lost lease needs no release,
// and a lease that cannot be released expires.
func (s *Sender) releaseBulk(ctx context.Context, b store.Bulk, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bulkTurn)
	defer cancel()
	return s.store.ReleaseBulk(ctx, b, wait)
}

// sendBulk works on a leased bulk for one turn. It returns the time until there is more to do. It returns 0 with an
// error when another try soon may succeed.
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
		size = 1 // try one row first: the limit may still apply
	}
	for turn := s.rights.Now().Add(bulkTurn); s.rights.Now().Before(turn); {
		if b.StoppedAt != nil {
			size = store.MaxPage // the rows are only marked
		}
		var rows []store.BulkRow
		var next store.BulkPause
		var err error
		if err = s.retryStore(ctx, func() (err error) {
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
			if err := j.readReruns(ctx, rows); err != nil {
				return 0, err
			}
			st, done = j.round(ctx, rows)
		} else if st.Ends, err = j.outcomesOfStopped(ctx, rows); err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, ctx.Err() // a repetition finds the receipts of accepted signals
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

// settleBulk stores the outcomes of a round.
func (s *Sender) settleBulk(ctx context.Context, b store.Bulk, st store.BulkSettlement) (after store.Bulk,
	err error) {
	err = s.retryStore(ctx, func() (err error) {
		after, err = s.store.SettleBulkRows(ctx, b, st, s.settings.LeaseTTL)
		return err
	})
	if err != nil {
		return store.Bulk{}, err
	}
	for _, e := range st.Ends {
		s.settings.Sent.WithLabelValues(string(e.Outcome)).Inc()
	}
	return after, nil
}

// retryStore retries f while the store is unavailable, for at most the duration of a lease. The bulk then goes on when
// the store is back, and the outcomes of a round are not lost.
func (s *Sender) retryStore(ctx context.Context, f func() error) error {
	for left := s.settings.LeaseTTL; ; left -= bulkStoreRetry {
		err := f()
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrOverloaded) || left <= 0 ||
			!control.Sleep(ctx, nil, bulkStoreRetry) {
			return err
		}
	}
}

// bulkJob is the state of sending one bulk.
type bulkJob struct {
	s      *Sender
	bulk   store.Bulk
	asker  authz.Principal
	action bulkAction
	newer  map[string]store.ChainRun // by runId: the newer reruns of the runs of a round
}

// readReruns finds the runs of rows that were rerun since the bulk was accepted, so that two bulks that were accepted
// together do not run a load twice.
func (j *bulkJob) readReruns(ctx context.Context, rows []store.BulkRow) error {
	if j.action.Rerun == nil || j.action.Rerun.AlreadyRerun {
		return nil
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.RunID
	}
	return j.s.retryStore(ctx, func() error {
		chains, _, err := runs.ReadChains(ctx, j.s.settings.Chains, j.bulk.TenantID, ids)
		j.newer = chains.Superseded(nil)
		return err
	})
}

// round sends the signals of rows concurrently and counts the rows with a final outcome. It returns no outcome for rows
// whose bulk was stopped or taken over in the meantime.
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

// outcomesOfStopped returns the outcomes of the rows of a stopped bulk. A server that crashed may have sent a signal
// without recording it, so rows with a receipt or a new run are not NOT_SENT.
func (j *bulkJob) outcomesOfStopped(ctx context.Context, rows []store.BulkRow) ([]store.BulkEnd, error) {
	f := store.BulkRowFilter{BulkID: j.bulk.ID}
	for _, r := range rows {
		f.Nos = append(f.Nos, r.No)
	}
	err := j.s.retryStore(ctx, func() (err error) {
		rows, err = j.s.store.BulkRows(ctx, f)
		return err
	})
	ends := make([]store.BulkEnd, len(rows))
	for i, r := range rows {
		switch ends[i] = (store.BulkEnd{No: r.No, Outcome: store.BulkNotSent}); {
		case r.Receipt != nil && r.Receipt.Rejected:
			ends[i].Outcome = store.BulkRejected
		case r.Receipt != nil, r.NewRunID != "":
			ends[i].Outcome = store.BulkAccepted
		}
	}
	return ends, err
}

// send sends the signal of one row, or creates its rerun, and returns the outcome. It returns false when this server no
// longer holds the bulk; then it sent nothing.
func (j *bulkJob) send(ctx context.Context, r store.BulkRow) (end store.BulkEnd, held bool) {
	if j.action.Rerun != nil {
		err := j.rerun(ctx, r)
		return j.end(ctx, r, runs.SignalReceipt{}, err), !errors.Is(err, store.ErrConflict)
	}
	rc, err := j.signal(ctx, r)
	if errors.Is(err, store.ErrConflict) {
		return end, false
	}
	var own *control.Error
	if errors.As(err, &own) && (own.Code == run.CodeForbidden || own.Code == run.CodeNotFound) {
		// The signal may have been accepted before a crash, when it was still allowed. The acceptance stands.
		if known, lookErr := j.s.store.Receipt(ctx, r.RunID, r.SignalID); lookErr == nil {
			rc, err = runs.SignalReceipt{SignalReceipt: known}, nil
		} else if !errors.Is(lookErr, store.ErrNotFound) {
			err = control.Translate(lookErr)
		}
	}
	return j.end(ctx, r, rc, err), true
}

// end returns the outcome of a row that was sent with the receipt or the error.
func (j *bulkJob) end(ctx context.Context, r store.BulkRow, rc runs.SignalReceipt, err error) store.BulkEnd {
	var own *control.Error
	end := store.BulkEnd{No: r.No, Outcome: store.BulkAccepted}
	switch {
	case err == nil && rc.Rejected:
		end.Outcome = store.BulkRejected
	case err == nil:
	case errors.As(err, &own):
		end.Outcome, end.Code, end.Message = store.BulkRefused, own.Code, control.Clip(own.Message)
		if mustWait(own.Code) && j.s.rights.Now().Sub(j.bulk.CreatedAt) < bulkLife {
			end.Outcome, end.Delay = store.BulkWaiting, max(bulkPauseLeast, min(own.RetryAfter, bulkPauseMost))
			if isQuota(own.Code) {
				end.Delay = max(bulkQuotaPause, end.Delay)
			}
		}
		if own.Code == run.CodeInternal {
			j.s.rights.Log.WarnContext(ctx, "a signal of a bulk failed; its row of the bulk is REFUSED",
				slog.String("bulkId", j.bulk.ID), slog.Int("row", r.No), slog.Any("error", own.Unwrap()))
		}
	default: // ctx ended
		end.Outcome, end.Code, end.Delay = store.BulkWaiting, run.CodeUnavailable, bulkPauseLeast
	}
	return end
}

// mustWait reports whether a row that failed with the code is tried again.
func mustWait(c run.Code) bool {
	return c == run.CodeSignalRate || c == run.CodeStoreUnavailable || c == run.CodeStoreOverloaded ||
		c == run.CodeUnavailable || isQuota(c)
}

// isQuota reports whether a new run was refused by a limit that frees itself.
func isQuota(c run.Code) bool { return c == run.CodeQuotaExceeded || c == run.CodeQueueFull }

// rerun creates the new run of a row with the current rights of the principal that requested the bulk. A row that has
// its run, because a server crashed before it recorded that, needs nothing more.
func (j *bulkJob) rerun(ctx context.Context, r store.BulkRow) error {
	if r.NewRunID != "" {
		return nil
	}
	if newest, ok := j.newer[r.RunID]; ok {
		return control.Refuse(run.CodeAlreadyRerun, "%s", runs.AlreadyRerunAs(newest))
	}
	if err := j.checkAlive(ctx, store.AuditRow{Action: string(authz.Rerun), RunID: r.RunID}); err != nil {
		return err
	}
	from := j.action.Rerun.From
	_, err := j.s.starter.RerunOfBulk(ctx, j.asker, runs.Rerun{
		RunID: r.RunID, RequestID: store.BulkSignalID(j.bulk.ID, r.No), Start: from.Start, Failed: from.Failed,
		Steps: from.Steps, Params: j.action.Rerun.Params, Reason: j.action.Reason, AlreadyRerun: j.action.Rerun.AlreadyRerun,
	}, j.bulk)
	if errors.Is(err, store.ErrAlreadyRerun) {
		return j.alreadyRerunError(ctx, r)
	}
	return control.Translate(err)
}

// alreadyRerunError returns the refusal of a run that somebody reran after this round read the chains. The other rerun
// may have been refused in its own transaction, for example by a quota; then this row waits and is tried again.
func (j *bulkJob) alreadyRerunError(ctx context.Context, r store.BulkRow) error {
	chains, _, err := runs.ReadChains(ctx, j.s.settings.Chains, j.bulk.TenantID, []string{r.RunID})
	if err != nil {
		return control.Translate(err)
	}
	if newest, ok := chains.Superseded(nil)[r.RunID]; ok {
		return control.Refuse(run.CodeAlreadyRerun, "%s", runs.AlreadyRerunAs(newest))
	}
	return control.Later(control.Refuse(run.CodeUnavailable, "Another bulk reruns this run now."), bulkPauseLeast)
}

// checkAlive returns FORBIDDEN, and writes row to the audit, when the account, token or session that requested the bulk
// has ended.
func (j *bulkJob) checkAlive(ctx context.Context, row store.AuditRow) error {
	alive, err := j.s.rights.Authz.IsAlive(j.asker)
	if err != nil || alive {
		return control.Translate(err)
	}
	row.Code = run.CodeForbidden
	j.s.rights.AuditDenied(ctx, j.asker, row)
	return control.Refuse(
		run.CodeForbidden, "The account, token or session that requested the bulk is no longer valid.")
}

// signal is SignalRun with the current rights of the principal that requested the bulk. A denial is written to the
// audit but not to the log of the run, because a bulk would flood the log.
func (j *bulkJob) signal(ctx context.Context, r store.BulkRow) (runs.SignalReceipt, error) {
	s, action := j.s, authz.Action(j.action.Signal.Type)
	audit := store.AuditRow{Action: string(action), RunID: r.RunID, SignalID: r.SignalID, Code: run.CodeForbidden}
	if err := j.checkAlive(ctx, audit); err != nil {
		return runs.SignalReceipt{}, err
	}
	of, err := s.rights.GetVisible(ctx, j.asker, action, r.RunID)
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
