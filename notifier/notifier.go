// Package notifier delivers events of runs, changes of alerts, records of the audit and lineage to other systems. It
// reads the feed and the changes of alerts, selects messages for each destination, and hands them to senders. It
// observes runs and never delays them.
//
// Each destination has a lease and a position of its own, so that one that hangs takes no time of others. Destinations
// that keep up read the feed together, and those that are behind read it alone. Delivery is
// at least once: after a crash messages are repeated with the same id. The messages of one run, and those of one alert,
// arrive in order; while one waits for its next try, later ones of the same run wait behind it and other runs go on.
package notifier

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/lineage"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/feed"
)

// Limits of a Notifier.
const (
	// maxWaiting and maxWaitingBytes bound the messages of a destination that are read and not yet delivered. Then the
	// destination reads no more until some are.
	maxWaiting      = 1000
	maxWaitingBytes = 8 << 20
	maxOpenAlerts   = 1000 // of a destination, whose repetition is planned
	keepDead        = 10_000
	// maxBatches bounds the positions that a destination keeps while messages wait: each has up to 100 KB.
	maxBatches = 8
	// maxShared and maxSharedBytes bound the messages of events that destinations share.
	maxShared      = 20_000
	maxSharedBytes = 16 << 20
	// keepChanges is how long changes of alerts are kept for destinations that fail or are disabled.
	keepChanges = 7 * 24 * time.Hour
	// keepRemoved is how long the state and the dead letters of a destination are kept that is no longer in the file.
	keepRemoved = 30 * 24 * time.Hour
)

// Timing of a Notifier. The zero value of a field is its default.
type Timing struct {
	Idle         time.Duration // between two looks at the feed without events; 1 s
	Lease        time.Duration // of a destination; 12 s
	Reload       time.Duration // between two looks at the file; 5 s
	FirstRetry   time.Duration // 1 s; doubles with each try
	LastRetry    time.Duration // 60 s
	FailingAfter time.Duration // failing for longer raises an alert; 5 min
	RepeatAlerts time.Duration // an open alert is repeated; 4 h
	Tries        int           // before a message becomes a dead letter, if others were accepted meanwhile; 10
	Concurrency  int           // messages of different runs at once; 8
	SendTimeout  time.Duration // of destinations without a timeout of their own; 10 s
	Report       time.Duration // between two reports about a destination that does not change; 15 s
	Group        time.Duration // changes of alerts about the same become one message for people; 5 min
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&t.Idle, time.Second)
	set(&t.Lease, 12*time.Second)
	set(&t.Reload, 5*time.Second)
	set(&t.FirstRetry, time.Second)
	set(&t.LastRetry, time.Minute)
	set(&t.FailingAfter, 5*time.Minute)
	set(&t.RepeatAlerts, 4*time.Hour)
	set(&t.SendTimeout, 10*time.Second)
	set(&t.Report, 15*time.Second)
	set(&t.Group, 5*time.Minute)
	if t.Tries <= 0 {
		t.Tries = 10
	}
	if t.Concurrency <= 0 {
		t.Concurrency = 8
	}
	return t
}

// Store is the part of a store that a Notifier needs.
type Store interface {
	LineageStore
	store.Cursors
	store.Destinations
	store.DestinationOrders
	GetAlert(ctx context.Context, id string) (store.AlertState, error)
	AuditReader
}

// Alerts raises and resolves alerts about destinations.
type Alerts interface {
	Raise(ctx context.Context, a store.Alert) (store.AlertRaised, error)
	Resolve(ctx context.Context, why string, alerts ...store.Alert) error
}

// Config contains the dependencies and settings of a Notifier.
type Config struct {
	Store  Store
	Alerts Alerts
	Owner  string // of leases: names this process
	// Load reads the configured destinations. It is called again every Timing.Reload, so that changes of the file take
	// effect. After an error the destinations stay as they were.
	Load func() ([]destination.Config, error)
	// Reload makes the notifier call Load at once, without a wait for Timing.Reload. It may be nil.
	Reload <-chan os.Signal
	// NewSender makes the sender of a destination.
	NewSender func(destination.Config) (destination.Sender, error)
	// OpenAudit replaces sealed names in rows of a tenant by what an auditor reads. nil: they stay sealed.
	OpenAudit func(ctx context.Context, tenantID string, rows []*store.AuditRow) error
	// ReadManifest reads the manifest of dbt that a run stored, for the datasets of lineage. It returns nil for one that
	// no longer exists, is not of the run, or is no manifest, and an error for one that can be read later. nil: lineage
	// has no datasets.
	ReadManifest func(ctx context.Context, id run.Identity, ref run.ArtifactRef) (*lineage.Manifest, error)
	// Link returns the address of the page of a run, or of alerts when runID is "". It may be nil.
	Link   func(runID string) string
	Timing Timing
	// Now is the time of the store, which stamps events and alerts. nil means time.Now, for a store on this machine.
	Now func() time.Time
	// Metrics and Logger may be nil.
	Metrics prometheus.Registerer
	Logger  *slog.Logger
}

// Notifier delivers messages to all destinations. Any number of processes may run one. Create it with New.
type Notifier struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	// Only Run uses these.
	workers  map[string]*worker // by name of the destination
	nextMark time.Time

	feed      *feed.Cache
	heads     *auditHeads
	messages  *sizedlru.Cache[destination.Message] // of events, by epoch and id
	manifests *sizedlru.Cache[*lineage.Manifest]
}

// New returns a notifier and registers its metrics.
func New(cfg Config) *Notifier {
	cfg.Timing = cfg.Timing.withDefaults()
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.OpenAudit == nil {
		cfg.OpenAudit = func(context.Context, string, []*store.AuditRow) error { return nil }
	}
	if cfg.Link == nil {
		cfg.Link = func(string) string { return "" }
	}
	n := &Notifier{cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Metrics), workers: map[string]*worker{},
		feed:      feed.NewCache(cfg.Store, store.RunFilter{EveryTenant: true}, cfg.Timing.Idle/2),
		heads:     newAuditHeads(cfg.Store, cfg.Timing.Idle/2, time.Now),
		messages:  sizedlru.New[destination.Message](maxShared, maxSharedBytes),
		manifests: sizedlru.New[*lineage.Manifest](maxManifests, maxManifestsBytes)}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	return n
}

// worker works for one destination until stop is called. done is closed when it has ended.
type worker struct {
	cfg  destination.Config
	stop context.CancelFunc
	done chan struct{}
}

// Run delivers until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	defer n.stopAll()
	broken := ""
	for ctx.Err() == nil {
		configs, err := n.cfg.Load()
		if err == nil {
			err = n.apply(ctx, configs)
		}
		if err == nil {
			n.markRemoved(ctx, configs)
		}
		n.reportFile(ctx, err, &broken)
		select {
		case <-ctx.Done():
		case <-n.cfg.Reload:
		case <-time.After(n.cfg.Timing.Reload):
		}
	}
	return nil
}

// markRemoved marks the destinations that neither this process nor one that reports has in its file.
func (n *Notifier) markRemoved(ctx context.Context, configs []destination.Config) {
	now := time.Now()
	if now.Before(n.nextMark) {
		return
	}
	n.nextMark = now.Add(4 * n.cfg.Timing.Report)
	names := make([]string, len(configs))
	for i, c := range configs {
		names[i] = c.Name
	}
	if err := n.cfg.Store.MarkDestinationsRemoved(ctx, names, 4*n.cfg.Timing.Report, keepRemoved); err != nil &&
		ctx.Err() == nil {
		n.nextMark = now
		n.log.WarnContext(ctx, "destinations that are not in the file were not marked", slog.Any("error", err))
	}
}

// reportFile raises an alert while the file of destinations cannot be used, and logs when that changes.
func (n *Notifier) reportFile(ctx context.Context, err error, broken *string) {
	alert := store.Alert{Code: run.CodeDestinationsInvalid, Level: store.AlertHigh, Subject: "destinations"}
	if err != nil {
		alert.Note = "The destinations stay as they were: " + err.Error()
		if _, e := n.cfg.Alerts.Raise(ctx, alert); e != nil && ctx.Err() == nil {
			n.log.WarnContext(ctx, "the alert about the file of destinations was not raised", slog.Any("error", e))
		}
		if err.Error() != *broken {
			n.log.WarnContext(ctx, "the file of destinations cannot be used; they stay as they were", slog.Any("error", err))
		}
		*broken = err.Error()
		return
	}
	if *broken == "" {
		return
	}
	*broken = ""
	n.log.InfoContext(ctx, "the file of destinations can be used again")
	if err := n.cfg.Alerts.Resolve(ctx, "The file can be used again.", alert); err != nil && ctx.Err() == nil {
		n.log.WarnContext(ctx, "the alert about the file of destinations was not resolved", slog.Any("error", err))
	}
}

// apply stops the workers of destinations that were removed or changed, and starts those of new ones. It changes
// nothing when a sender cannot be made.
func (n *Notifier) apply(ctx context.Context, configs []destination.Config) error {
	wanted := map[string]destination.Config{}
	senders := map[string]destination.Sender{}
	var errs []error
	for _, c := range configs {
		wanted[c.Name] = c
		if w := n.workers[c.Name]; w != nil && reflect.DeepEqual(w.cfg, c) {
			continue
		}
		s, err := n.cfg.NewSender(c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		senders[c.Name] = s
	}
	if len(errs) > 0 {
		for _, s := range senders {
			_ = s.Close()
		}
		return errors.Join(errs...)
	}
	for name, w := range n.workers {
		if c, found := wanted[name]; !found || !reflect.DeepEqual(w.cfg, c) {
			w.stop()
			<-w.done
			delete(n.workers, name)
			n.metrics.forget(name)
			if !found {
				n.resolveRemoved(ctx, name)
			}
		}
	}
	for name, s := range senders {
		n.start(ctx, wanted[name], s)
	}
	return nil
}

// resolveRemoved resolves the alert about a destination that is no longer in the file.
func (n *Notifier) resolveRemoved(ctx context.Context, name string) {
	a := store.Alert{Code: run.CodeDestinationFailing, Subject: name}
	if err := n.cfg.Alerts.Resolve(ctx, "The destination was removed.", a); err != nil && ctx.Err() == nil {
		n.log.WarnContext(ctx, "the alert about a destination was not resolved", slog.String("destination", name),
			slog.Any("error", err))
	}
}

func (n *Notifier) start(ctx context.Context, c destination.Config, s destination.Sender) {
	ctx, stop := context.WithCancel(ctx)
	w := &worker{cfg: c, stop: stop, done: make(chan struct{})}
	n.workers[c.Name] = w
	go func() {
		defer close(w.done)
		defer stop()
		defer func() { _ = s.Close() }()
		for ctx.Err() == nil {
			n.contained(ctx, c, s)
			sleep(ctx, n.cfg.Timing.Lease/4)
		}
	}()
}

// contained works until the lease is lost. A panic costs this destination a pause and others nothing.
func (n *Notifier) contained(ctx context.Context, c destination.Config, s destination.Sender) {
	err := contain.Call(func() error { return n.work(ctx, c, s) })
	var panicked *contain.PanicError
	if errors.As(err, &panicked) {
		n.log.ErrorContext(ctx, "the delivery to a destination panicked", slog.String("destination", c.Name),
			slog.String("stack", string(panicked.Stack)))
	}
}

func (n *Notifier) stopAll() {
	var wg sync.WaitGroup
	for _, w := range n.workers {
		w.stop()
		wg.Go(func() { <-w.done })
	}
	wg.Wait()
	clear(n.workers)
}

// work takes the lease of a destination and delivers until the lease is lost, the store fails or ctx ends.
func (n *Notifier) work(ctx context.Context, c destination.Config, sender destination.Sender) error {
	cursor, err := n.cfg.Store.LeaseCursor(ctx, "notify/"+c.Name, n.cfg.Owner, n.cfg.Timing.Lease)
	if err != nil {
		return err // another process works for it, or the store fails
	}
	s, err := n.newSession(ctx, c, sender, cursor)
	if err == nil {
		err = s.deliver(ctx)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, errRestart) {
		n.log.WarnContext(ctx, "a destination waits until the store answers", slog.String("destination", c.Name),
			slog.Any("error", err))
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = n.cfg.Store.ReleaseCursor(release, cursor) // else the lease expires
	return err
}

// digest identifies a configuration, so that a destination that was disabled is enabled by a change of its entry.
func digest(c destination.Config) string {
	doc, _ := json.Marshal(c) // strings, numbers and lists can be encoded
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:8])
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
