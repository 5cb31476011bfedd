package notifier

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/run/lineage"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/feed"
)

// position is what the store keeps for a destination.
type position struct {
	// Since is when the destination was first seen. Older events and changes are not sent.
	Since      time.Time `json:"since"`
	Checkpoint string    `json:"checkpoint"` // of the feed
	Change     int64     `json:"change"`     // the last change of alerts
	// Audit has the number of the last record of the audit of each tenant.
	Audit map[string]int64 `json:"audit,omitempty"`
	// ReplayedUntil is when the store's history was replaced. Older messages are sent again and marked as replayed.
	ReplayedUntil time.Time `json:"replayedUntil,omitzero"`
	// Repeat is when each open alert is due again, by id.
	Repeat map[string]time.Time `json:"repeat,omitempty"`
	// Order is how far the order that is carried out has come.
	Order *orderPosition `json:"order,omitempty"`
}

// batch is what was read together. Its position may be saved when no delivery of it or of earlier ones is left. The
// last batch is open: it has no position yet, and takes what is read next.
type batch struct {
	checkpoint string
	change     int64
	audit      map[string]int64
	left       int
	began      time.Time
}

// delivery is a message on its way.
type delivery struct {
	message   destination.Message
	lane      string
	bytes     int
	tries     int
	failed    time.Time // of the first try that was not accepted
	notBefore time.Time // it waits for more changes of its group
	batch     *batch
	part      *orderPart // of an order, and then batch is nil
}

// lane is the deliveries of one run or one alert, in order. The first one is sent or waits for its next try.
type lane struct {
	queue []*delivery
	busy  bool
	next  time.Time // of the first one's next try
}

// result is the outcome of one try.
type result struct {
	d   *delivery
	err error
}

// session is the work for one destination under one lease. One goroutine owns it; tries run in goroutines of their own.
type session struct {
	*Notifier
	dest     destination.Config
	sender   destination.Sender
	cursor   store.Cursor
	leased   time.Time // until then no other process works for the destination
	at       position
	disabled bool
	byPerson bool // a person disabled it

	reader  *feed.Reader
	change  int64 // the last change of alerts that was read
	audit   auditReader
	lineage lineageReader
	lanes   map[string]*lane
	batches []*batch
	waiting int // deliveries in lanes
	bytes   int
	busy    int
	results chan result
	tries   sync.WaitGroup

	work        *orderWork // the replay or redrive that is carried out
	busyOrders  int        // tries of messages of orders
	testing     bool
	testResults chan testResult
	groups      map[string]*group // of changes of alerts about the installation, for people

	nextRead, nextSave, nextReport, nextRepeat, nextTrim time.Time

	report       store.DestinationReport // since the last one
	changed      bool                    // the report says something new
	failingSince *time.Time
	accepted     time.Time // when the destination last accepted a message
	pause        time.Time // the destination asked for no message before it
	missed       int64     // runs that were deleted before the destination took their messages
	alerted      bool      // an alert says that the destination fails, or may do so
}

func (n *Notifier) newSession(ctx context.Context, c destination.Config, sender destination.Sender,
	cursor store.Cursor) (*session, error) {
	s := &session{Notifier: n, dest: c, sender: sender, cursor: cursor, lanes: map[string]*lane{},
		groups: map[string]*group{}, results: make(chan result, n.cfg.Timing.Concurrency),
		testResults: make(chan testResult, 1), alerted: true}
	if json.Unmarshal([]byte(cursor.Position), &s.at) != nil || s.at.Since.IsZero() {
		s.at = position{Since: s.storeNow()}
	}
	if s.at.Repeat == nil {
		s.at.Repeat = map[string]time.Time{}
	}
	s.change = s.at.Change
	s.audit = newAuditReader(s.at.Audit)
	s.lineage.builders = sizedlru.New[*lineage.Builder](maxBuilders, maxBuilderWeight)
	d, err := n.cfg.Store.GetDestination(ctx, c.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	s.failingSince = d.FailingSince
	s.obey(d)
	s.metrics.begin(c.Name)
	if s.reader, err = n.feed.NewReader(s.at.Checkpoint); err != nil {
		n.log.WarnContext(ctx, "the position of a destination cannot be read; it starts from the beginning",
			slog.String("destination", c.Name), slog.Any("error", err))
		s.at.ReplayedUntil = s.storeNow()
		if s.reader, err = n.feed.NewReader(""); err != nil {
			return nil, err
		}
	}
	return s, s.save(ctx)
}

// storeNow returns the time of the store. Positions and reports are in this time, because other processes and the store
// compare them; waits of this process are in its own.
func (s *session) storeNow() time.Time { return s.cfg.Now().UTC() }

// ageOf returns the age of a time from the store; 0 for the zero time.
func (s *session) ageOf(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(0, s.storeNow().Sub(at))
}

// deliver reads, sends and saves until the lease is lost, the store fails or ctx ends.
func (s *session) deliver(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.tries.Wait()
	defer cancel()
	for ctx.Err() == nil {
		now := time.Now()
		if now.After(s.nextSave) {
			if err := s.save(ctx); err != nil {
				return err
			}
		}
		if !s.disabled {
			if err := s.fill(ctx, now); err != nil {
				return err
			}
			if err := s.fillOrder(ctx); err != nil {
				return err
			}
			s.startTries(ctx, now)
		}
		select {
		case <-ctx.Done():
		case r := <-s.results:
			if err := s.finish(ctx, r); err != nil {
				return err
			}
		case r := <-s.testResults:
			if err := s.finishTest(ctx, r); err != nil {
				return err
			}
		case <-time.After(s.untilNext()):
		}
	}
	return nil
}

// untilNext returns how long there is nothing to do unless a try ends.
func (s *session) untilNext() time.Duration {
	next := s.nextSave
	earlier := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	if !s.disabled {
		if s.hasRoom() {
			earlier(s.nextRead)
		}
		if s.work != nil && s.work.hasRoom() && s.hasRoom() {
			earlier(time.Now())
		}
		if s.busy < s.cfg.Timing.Concurrency {
			for _, l := range s.lanes {
				if !s.isBlocked(l) {
					earlier(latest(l.next, l.queue[0].notBefore, s.pause))
				}
			}
		}
	}
	return max(time.Millisecond, time.Until(next))
}

// isBlocked reports whether the first message of a lane cannot be sent before another try ends.
func (s *session) isBlocked(l *lane) bool {
	return l.busy || l.queue[0].part != nil && s.busyOrders >= max(1, s.cfg.Timing.Concurrency/2)
}

func latest(times ...time.Time) (out time.Time) {
	for _, t := range times {
		if t.After(out) {
			out = t
		}
	}
	return out
}

func (s *session) hasRoom() bool { return s.waiting < maxWaiting && s.bytes < maxWaitingBytes }

// fill reads until there is no room or nothing new. It returns at once when a look is not due.
func (s *session) fill(ctx context.Context, now time.Time) error {
	if now.Before(s.nextRead) {
		return nil
	}
	for range 20 { // tries that end meanwhile are handled between two rounds
		if !s.hasRoom() {
			return nil
		}
		idle, err := s.readEvents(ctx)
		if err != nil {
			return err
		}
		if !idle {
			continue
		}
		alerts, err := s.readAlerts(ctx)
		if err != nil {
			return err
		}
		records, err := s.readAudit(ctx)
		if err != nil {
			return err
		}
		if records {
			continue
		}
		if s.nextRead = nextLook(time.Now(), s.cfg.Timing.Idle); alerts {
			s.nextRead = now // as soon as there is room
		}
		return nil
	}
	if _, err := s.readAlerts(ctx); err != nil { // alerts and the audit do not wait for a long feed
		return err
	}
	_, err := s.readAudit(ctx)
	return err
}

// nextLook returns the time of the next look at the feed. It is the same for all destinations, so that the first of
// them reads for all.
func nextLook(now time.Time, idle time.Duration) time.Time {
	return now.Add(idle - now.Sub(now.Truncate(idle)))
}

// readEvents reads one batch of the feed. idle says that there was none, or that lineage waits for a manifest.
func (s *session) readEvents(ctx context.Context) (idle bool, err error) {
	if done, err := s.putLineage(ctx); err != nil || !done {
		return s.lineage.waiting, err
	}
	part := s.openBatch()
	b, err := s.reader.Next(ctx)
	if err != nil {
		return false, err
	}
	if b.Reset {
		return false, s.restart(ctx)
	}
	for _, e := range b.Events {
		if e.PersistedAt.Before(s.at.Since) {
			continue
		}
		m, err := s.sharedMessage(b.Epoch, e)
		if err != nil {
			return false, err
		}
		s.add(part, "run/"+e.RunID, m)
	}
	return len(b.Events) == 0, s.deriveLineage(ctx, part, b)
}

// errRestart ends a session whose store has another history.
var errRestart = errors.New("notifier: the store's history was replaced")

// restart saves a position before all events of the history that replaced the one before.
func (s *session) restart(ctx context.Context) error {
	s.at = position{Since: s.at.Since, ReplayedUntil: s.storeNow()}
	s.batches, s.change, s.audit, s.nextSave = nil, 0, newAuditReader(nil), time.Time{}
	s.log.WarnContext(ctx, "the store's history was replaced; the messages of a destination are sent again",
		slog.String("destination", s.dest.Name))
	if err := s.persist(ctx); err != nil {
		return err
	}
	return errRestart
}

// openBatch returns the batch that collects the next reads. The caller calls it before it reads. Encoding the position
// of the feed costs more than reading a few events, so one batch covers an eighth of the lease. It covers more while
// an earlier delivery waits, so that the list stays short.
func (s *session) openBatch() *batch {
	now := time.Now()
	if n := len(s.batches); n > 0 {
		last := s.batches[n-1]
		if last.left == 0 || n >= maxBatches || now.Sub(last.began) < s.cfg.Timing.Lease/8 {
			return last
		}
		last.checkpoint, last.change, last.audit = s.reader.Checkpoint(), s.change, maps.Clone(s.audit.read)
	}
	b := &batch{began: now}
	s.batches = append(s.batches, b)
	return b
}

// forgetDone drops the batches at the front that are delivered, and moves the position behind them.
func (s *session) forgetDone() {
	for len(s.batches) > 1 && s.batches[0].left == 0 {
		first := s.batches[0]
		s.at.Checkpoint, s.at.Change, s.at.Audit = first.checkpoint, first.change, first.audit
		s.batches = s.batches[1:]
	}
	if len(s.batches) == 1 && s.batches[0].left == 0 {
		s.at.Checkpoint, s.at.Change, s.at.Audit = s.reader.Checkpoint(), s.change, maps.Clone(s.audit.read)
		s.batches = nil
	}
}

// add adds a message to its lane when the destination selects it.
func (s *session) add(b *batch, name string, m destination.Message) {
	if !s.dest.Selects(m) {
		return
	}
	m.Replayed = m.At.Before(s.at.ReplayedUntil)
	d := &delivery{message: m, lane: name, bytes: len(m.Data) + 1024, batch: b}
	if s.joinGroup(d) {
		return
	}
	b.left++
	s.enqueue(d)
}

// enqueue puts a delivery at the end of its lane.
func (s *session) enqueue(d *delivery) {
	l := s.lanes[d.lane]
	if l == nil {
		l = &lane{}
		s.lanes[d.lane] = l
	}
	l.queue = append(l.queue, d)
	s.waiting++
	s.bytes += d.bytes
}

// startTries starts a try of the first message of each lane that is due, at most Concurrency at once.
func (s *session) startTries(ctx context.Context, now time.Time) {
	if now.Before(s.pause) {
		return
	}
	if !time.Now().Before(s.leased) { // the store did not answer for long: another process may have sent these
		s.nextSave = time.Time{}
		return
	}
	for _, l := range s.lanes { // in random order, so that no run is preferred
		if s.busy >= s.cfg.Timing.Concurrency {
			return
		}
		d := l.queue[0]
		if s.isBlocked(l) || now.Before(l.next) || now.Before(d.notBefore) {
			continue
		}
		l.busy = true
		s.busy++
		if d.part != nil {
			s.busyOrders++
		}
		s.tries.Go(func() {
			s.results <- result{d, s.send(ctx, d.message)} // has room for all tries
		})
	}
}

// save moves the stored position, extends the lease, and reports the state of the destination.
func (s *session) save(ctx context.Context) error {
	s.forgetDone()
	if err := s.persist(ctx); err != nil {
		return err
	}
	s.nextSave = time.Now().Add(s.cfg.Timing.Lease / 4)
	if err := s.followOrders(ctx); err != nil {
		return err
	}
	oldest := s.oldest(false)
	if s.byPerson { // they wait because somebody wants it
		oldest = time.Time{}
	}
	s.metrics.setOldest(s.dest.Name, s.ageOf(oldest))
	s.noteBehind()
	s.checkFailing(ctx)
	if err := s.reportState(ctx); err != nil {
		return err
	}
	if time.Now().After(s.nextTrim) {
		s.nextTrim = time.Now().Add(time.Hour)
		return s.cfg.Store.TrimAlertChanges(ctx, keepChanges)
	}
	return nil
}

// reportState tells the store what the API shows about the destination: when it changed, and every Timing.Report. A
// report also says that a process works for it.
func (s *session) reportState(ctx context.Context) error {
	now := time.Now()
	if !s.changed && now.Before(s.nextReport) {
		return nil
	}
	entry, err := json.Marshal(s.dest.Entry())
	if err != nil {
		return err
	}
	r := s.report
	r.Name, r.Entry, r.Digest, r.FailingSince = s.dest.Name, entry, digest(s.dest), s.failingSince
	r.Waiting = int64(s.waiting)
	if at := s.oldest(false); !at.IsZero() {
		r.OldestWaiting = &at
	}
	if !s.disabled { // a disabled destination begins where it stood
		begins := s.storeNow()
		r.BeginsAt = &begins
		if at := s.oldest(true); !at.IsZero() {
			r.BeginsAt = &at
		}
	}
	if err := s.cfg.Store.ReportDestination(ctx, r); err != nil {
		return err
	}
	s.report, s.changed, s.nextReport = store.DestinationReport{}, false, now.Add(s.cfg.Timing.Report)
	return nil
}

func (s *session) persist(ctx context.Context) error {
	doc, err := json.Marshal(s.at)
	if err != nil {
		return err
	}
	s.cursor.Position = string(doc)
	began := time.Now()
	if err := s.cfg.Store.SaveCursor(ctx, s.cursor, s.cfg.Timing.Lease); err != nil {
		return err
	}
	s.leased = began.Add(s.cfg.Timing.Lease)
	return nil
}

// oldest returns the time of the oldest message that waits; messages of orders do not count. withGroups also counts the
// messages that wait for the end of their group.
func (s *session) oldest(withGroups bool) (at time.Time) {
	now := time.Now()
	for _, l := range s.lanes {
		for _, d := range l.queue {
			if d.part != nil || !withGroups && now.Before(d.notBefore) {
				continue
			}
			if at.IsZero() || d.message.At.Before(at) {
				at = d.message.At
			}
			break
		}
	}
	return at
}
