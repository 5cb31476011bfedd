package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/epoch"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/storeadmin"
)

// Roles of a site in a SiteReport.
const (
	RolePrimary  = "PRIMARY"
	RoleStandby  = "STANDBY"
	RolePromoted = "PROMOTED" // the database was promoted, and dvt dr promote has not put the site into service
	RoleFormer   = "FORMER"   // the other site is in a newer epoch
)

// lossRuns bounds the runs that a report names as lost.
const lossRuns = 100

// lossMargin is how long before the newest event of a standby a run may have changed that the standby lacks, because
// commits are replayed in their order and not in that of the times of events.
const lossMargin = 5 * time.Minute

// SiteReport is the result of `dvt dr status`.
type SiteReport struct {
	Role     string `json:"role"`
	Epoch    string `json:"epoch"`
	Position string `json:"position"` // in the log of the database
	// Replication is that of a standby.
	Replication *Replication       `json:"replication,omitempty"`
	Replicas    []postgres.Replica `json:"replicas,omitempty"` // of a primary
	LastEvent   *LastEvent         `json:"lastEvent,omitempty"`
	Peer        *PeerReport        `json:"peer,omitempty"` // the other site; nil without peer-store
	Loss        Loss               `json:"loss"`
}

// Replication is how far a standby is behind its primary.
type Replication struct {
	Receiving bool `json:"receiving"`
	// BehindBytes is nil when the role of the connection may not see it, or the primary is not reached.
	BehindBytes  *int64  `json:"behindBytes,omitempty"`
	WaitingBytes int64   `json:"waitingBytes"` // received and not replayed
	AgeSeconds   float64 `json:"ageSeconds"`   // of the newest transaction; 0 while nothing is missing
}

// PeerReport is the state of the database of the other site.
type PeerReport struct {
	Reachable bool       `json:"reachable"`
	Error     string     `json:"error,omitempty"`
	Standby   bool       `json:"standby,omitempty"`
	Epoch     string     `json:"epoch,omitempty"`
	Position  string     `json:"position,omitempty"`
	LastEvent *LastEvent `json:"lastEvent,omitempty"`
}

// LastEvent is the newest event of a site.
type LastEvent struct {
	RunID  string    `json:"runId"`
	RunSeq run.Seq   `json:"runSeq"`
	At     time.Time `json:"at"`
}

func lastEvent(newest []store.Head) *LastEvent {
	if len(newest) == 0 {
		return nil
	}
	return &LastEvent{newest[0].RunID, newest[0].LastSeq, newest[0].LastAt.UTC()}
}

// Loss is what a promotion now would lose, or what the last one lost.
type Loss struct {
	Known bool      `json:"known"` // both databases could be compared
	Text  string    `json:"text"`
	Runs  []LostLog `json:"runs,omitempty"` // at most 100
	More  bool      `json:"more,omitempty"`
}

// LostLog is a run whose log is longer at the other site. Has is 0 when this site does not know the run.
type LostLog struct {
	RunID string    `json:"runId"`
	Has   run.Seq   `json:"has"`
	Peer  run.Seq   `json:"peer"`
	At    time.Time `json:"at"`
}

// ErrNoSite says that a store cannot be one of two sites.
var ErrNoSite = errors.New("disaster recovery needs PostgreSQL with streaming replication: set store to the database of " +
	"this site")

// openDatabase opens the database of the settings, or of its peer when dsn is given, with the rights of its role.
func openDatabase(ctx context.Context, cfg config.Config, dsn string, log *slog.Logger) (*postgres.Store, error) {
	cfg.Standby = false // the commands themselves decide what is written
	options, err := connect.Store(&cfg, log)
	if err != nil {
		return nil, err
	}
	options.MaxConns = 4
	if dsn == "" {
		if !strings.HasPrefix(cfg.Store, "postgres") {
			return nil, ErrNoSite
		}
		return postgres.Open(ctx, cfg.Store, options)
	}
	options.Password = nil
	return postgres.Open(ctx, dsn, options)
}

// SiteStatus is `dvt dr status`.
func SiteStatus(ctx context.Context, cfg config.Config, log *slog.Logger) (SiteReport, error) {
	db, err := openDatabase(ctx, cfg, "", log)
	if err != nil {
		return SiteReport{}, err
	}
	defer func() { _ = db.Close() }()
	return siteReport(ctx, cfg, db, log)
}

func siteReport(ctx context.Context, cfg config.Config, db *postgres.Store, log *slog.Logger) (SiteReport, error) {
	now, err := db.Site(ctx)
	if err != nil {
		return SiteReport{}, err
	}
	out := SiteReport{Role: RolePrimary, Epoch: now.Epoch, Position: now.Position, Replicas: now.Replicas}
	if now.Standby {
		out.Role = RoleStandby
		out.Replication = &Replication{Receiving: now.Receiving, BehindBytes: now.Behind, WaitingBytes: now.Waiting,
			AgeSeconds: now.Age.Seconds()}
	} else if waits, err := isUnserved(ctx, db, now.Epoch); err != nil {
		return out, err
	} else if waits {
		out.Role = RolePromoted
	}
	last, err := db.NewestHeads(ctx, time.Time{}, 1)
	if err != nil {
		return out, err
	}
	out.LastEvent = lastEvent(last)
	return out, out.compare(ctx, cfg, db, log)
}

// compare adds the other site and what this one lacks.
func (r *SiteReport) compare(ctx context.Context, cfg config.Config, db *postgres.Store, log *slog.Logger) error {
	if cfg.PeerStore == "" {
		r.Loss.Text = r.unknownLoss("peer-store names no database of the other site")
		return nil
	}
	r.Peer = &PeerReport{}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	peer, err := openDatabase(ctx, cfg, string(cfg.PeerStore), log)
	if err != nil {
		r.Peer.Error = "the database of the other site does not answer"
		if !errors.Is(err, store.ErrUnavailable) {
			r.Peer.Error = err.Error()
		}
		r.Loss.Text = r.unknownLoss(r.Peer.Error)
		return nil
	}
	defer func() { _ = peer.Close() }()
	there, err := peer.Site(ctx)
	if err != nil {
		r.Peer.Error, r.Loss.Text = err.Error(), r.unknownLoss("the database of the other site does not answer")
		return nil
	}
	r.Peer.Reachable, r.Peer.Standby, r.Peer.Epoch, r.Peer.Position = true, there.Standby, there.Epoch, there.Position
	if epoch.IsOlder(r.Epoch, there.Epoch) && !there.Standby {
		r.Role = RoleFormer
	}
	since := time.Time{}
	if r.LastEvent != nil {
		since = r.LastEvent.At.Add(-lossMargin)
	}
	heads, err := peer.NewestHeads(ctx, since, store.MaxHeads)
	if err != nil {
		return err
	}
	ids := make([]string, len(heads))
	for i, h := range heads {
		ids[i] = h.RunID
	}
	own, err := db.Heads(ctx, ids)
	if err != nil {
		return err
	}
	r.Peer.LastEvent = lastEvent(heads)
	r.Loss.Known, r.Loss.More = true, len(heads) == store.MaxHeads
	for _, h := range heads {
		here := own.ByRun[h.RunID].LastSeq
		switch {
		case here >= h.LastSeq:
		case len(r.Loss.Runs) == lossRuns:
			r.Loss.More = true
		default:
			r.Loss.Runs = append(r.Loss.Runs, LostLog{RunID: h.RunID, Has: here, Peer: h.LastSeq, At: h.LastAt})
		}
	}
	r.Loss.Text = r.knownLoss()
	return nil
}

func (r *SiteReport) knownLoss() string {
	switch n := len(r.Loss.Runs); {
	case n == 0:
		return "this site has every event of the other one"
	case r.Role == RoleStandby:
		return fmt.Sprintf("a promotion now would lose events of %d runs", n)
	default:
		return fmt.Sprintf("%d runs have more events at the other site", n)
	}
}

// unknownLoss says what can be said without the other site.
func (r *SiteReport) unknownLoss(why string) string {
	if r.Replication == nil {
		return "not known: " + why
	}
	behind := "not known"
	if b := r.Replication.BehindBytes; b != nil {
		behind = fmt.Sprintf("%d bytes", *b)
	}
	last := "no event"
	if r.LastEvent != nil {
		last = "the event at " + r.LastEvent.At.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("not known, because %s. A promotion now loses what the primary committed after %s; the lag that the "+
		"primary named last is %s. dvt dr promote --repair-from-engine brings back what Temporal knows", why, last, behind)
}

// promotionID is the id of the audit row of the promotion onto a timeline.
func promotionID(at string) string {
	_, timeline, _ := strings.Cut(at, ".")
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("dvt dr promote "+timeline)).String()
}

// firstTimeline ends the epoch of a database that was never promoted.
const firstTimeline = ".00000001"

// isUnserved reports whether a database is on a timeline that dvt dr promote has not put into service, and was a
// standby or a backup before.
func isUnserved(ctx context.Context, db *postgres.Store, at string) (bool, error) {
	if strings.HasSuffix(at, firstTimeline) {
		return false, nil
	}
	known, err := db.HasAudit(ctx, promotionID(at))
	return !known, err
}

// PromoteRequest is what `dvt dr promote` asks.
type PromoteRequest struct {
	// Execute promotes; without it PromoteSite only reports.
	Execute bool
	// Force promotes although the primary answers.
	Force bool
	// Repair refills the logs from the engine before the site begins to work.
	Repair bool
	By     string // the person or account that runs the command
	Reason string
}

// Promotion is the result of `dvt dr promote`.
type Promotion struct {
	Before   SiteReport           `json:"before"`
	Promoted bool                 `json:"promoted"` // the site is the primary now
	Already  bool                 `json:"already"`  // it was before
	Epoch    string               `json:"epoch,omitempty"`
	Repaired *storeadmin.Repaired `json:"repaired,omitempty"`
}

// Refusals of PromoteSite.
var (
	ErrPrimaryAnswers = errors.New("the primary still answers: stop its database first, so that nothing more is " +
		"acknowledged there, or promote with --force")
	ErrNeverStandby = errors.New("this database was never a standby, so there is nothing to promote")
)

// PromoteSite makes the database of a standby the primary, refills it from the engine if asked, and puts the site into
// service: it begins a new epoch and writes an audit row in one transaction. The processes of the site follow within
// seconds. Every step can be repeated: after an interruption the same call continues. It returns ErrPrimaryAnswers,
// ErrNeverStandby and postgres.ErrMayNotPromote before it changes anything.
func PromoteSite(ctx context.Context, cfg config.Config, log *slog.Logger, r PromoteRequest) (out Promotion,
	err error) {
	cfg.Standby = false // the command itself decides what is written
	db, err := openDatabase(ctx, cfg, "", log)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if out.Before, err = siteReport(ctx, cfg, db, log); err != nil {
		return out, err
	}
	before := out.Before
	if before.Role != RoleStandby {
		waits, err := isUnserved(ctx, db, before.Epoch)
		switch {
		case err != nil:
			return out, err
		case strings.HasSuffix(before.Epoch, firstTimeline):
			return out, ErrNeverStandby
		case !waits:
			out.Promoted, out.Already, out.Epoch = true, true, before.Epoch
			return out, nil
		}
	}
	answers := before.Peer != nil && before.Peer.Reachable && !before.Peer.Standby
	if answers = answers || before.Replication != nil && before.Replication.Receiving; answers && !r.Force {
		return out, ErrPrimaryAnswers
	}
	if !r.Execute {
		return out, nil
	}
	if err := db.Promote(ctx); err != nil {
		return out, err
	}
	if r.Repair {
		repaired, err := repairStore(ctx, cfg, log, nil, nil, func(s store.Store) store.Store { return sameEpoch{s} })
		if err != nil {
			return out, err
		}
		out.Repaired = &repaired
	}
	out.Promoted = true
	out.Epoch, err = putIntoService(ctx, cfg, db, r)
	return out, err
}

// sameEpoch is a store whose epoch a repair does not change, because that step ends the promotion.
type sameEpoch struct{ store.Store }

func (sameEpoch) BumpEpoch(context.Context) error { return nil }

func putIntoService(ctx context.Context, cfg config.Config, db *postgres.Store, r PromoteRequest) (string, error) {
	at, err := db.Epoch(ctx)
	if err != nil {
		return "", err
	}
	row := store.AuditRow{ID: promotionID(at), TenantID: cfg.OperatorsTenant, Actor: r.By, Action: "PROMOTE_SITE",
		Outcome: "ACCEPTED", Reason: r.Reason, Via: "command"}
	keys, err := openSubjects(&cfg)
	if err != nil {
		return "", err
	}
	if keys != nil {
		sealed, err := keys.Seal([]store.AuditRow{row})
		if err != nil {
			return "", err
		}
		row = sealed[0]
	}
	if _, err := db.BumpEpochOnce(ctx, row); err != nil {
		return "", err
	}
	return db.Epoch(ctx)
}

// LacksPromotion reports whether the error of PromoteSite says that the role of the store may not promote it.
func LacksPromotion(err error) bool { return errors.Is(err, postgres.ErrMayNotPromote) }
