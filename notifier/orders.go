package notifier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/store"
)

// Messages of an order that are read and not delivered, at most. They leave room for new messages.
const (
	maxOrderWaiting = 100
	maxOrderBytes   = 1 << 20
	// readsOfOrder is the number of reads for an order between two looks at the outcomes of tries.
	readsOfOrder = 10
)

// orderCounts are the messages of an order: selected, accepted, and dead letters.
type orderCounts struct {
	Messages int64 `json:"messages,omitempty"`
	Sent     int64 `json:"sent,omitempty"`
	Failed   int64 `json:"failed,omitempty"`
}

// orderPosition is how far an order was delivered. It is saved with the position of the destination, so that only the
// process that holds the lease moves it.
type orderPosition struct {
	ID     string         `json:"id"`
	Replay replayPosition `json:"replay,omitzero"`
	Letter int64          `json:"letter,omitempty"` // the last dead letter
	Until  int64          `json:"until,omitempty"`  // the newest dead letter when the order was taken up
	orderCounts
	Done bool `json:"done,omitempty"`
}

// orderPart is what was read of an order together.
type orderPart struct {
	replay                 replayPosition
	letter                 int64
	messages, sent, failed int64
	left                   int
}

// orderWork is the order that a session carries out.
type orderWork struct {
	order   store.DestinationOrder
	at      orderPosition // of what was delivered
	read    orderPosition // of what was read
	replay  *replayReader // of a REPLAY
	redrive destination.Redrive
	isRead  bool // nothing is left to read
	parts   []*orderPart
	waiting int
	bytes   int
}

func (w *orderWork) hasRoom() bool {
	return !w.isRead && w.waiting < maxOrderWaiting && w.bytes < maxOrderBytes
}

// forgetDone moves the position behind the parts at the front that are delivered.
func (w *orderWork) forgetDone() {
	for len(w.parts) > 0 && w.parts[0].left == 0 {
		p := w.parts[0]
		w.at.Replay, w.at.Letter = p.replay, p.letter
		w.at.Messages += p.messages
		w.at.Sent += p.sent
		w.at.Failed += p.failed
		w.parts = w.parts[1:]
	}
	w.at.Done = w.isRead && len(w.parts) == 0
}

// counts returns those of the parts that are delivered and of those on their way.
func (w *orderWork) counts() orderCounts {
	out := w.at.orderCounts
	for _, p := range w.parts {
		out.Messages += p.messages
		out.Sent += p.sent
		out.Failed += p.failed
	}
	return out
}

// obey applies the switch of the store. When the destination is enabled, no message waits for its next try.
func (s *session) obey(d store.DestinationState) {
	was := s.disabled
	s.missed = d.MissedRuns
	s.byPerson = d.DisabledFor == store.DisabledByPerson
	s.disabled = s.byPerson || d.DisabledFor != "" && d.DisabledFor == digest(s.dest)
	if s.disabled != was {
		s.changed = true
	}
	if was && !s.disabled {
		s.failingSince, s.pause, s.nextRead = nil, time.Time{}, time.Time{}
		for _, l := range s.lanes {
			l.next = time.Time{}
		}
	}
}

// followOrders reads the open orders of the destination and reports the progress of the current one. The caller has
// just saved the position, so this process holds the lease.
func (s *session) followOrders(ctx context.Context) error {
	d, err := s.cfg.Store.GetDestination(ctx, s.dest.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	s.obey(d)
	if err := s.reportOrder(ctx); err != nil {
		return err
	}
	open, err := s.cfg.Store.OpenDestinationOrders(ctx, s.dest.Name)
	if err != nil {
		return err
	}
	for _, o := range open {
		switch {
		case o.Kind == store.OrderTest && !s.testing:
			s.startTest(ctx, o)
		case o.Kind != store.OrderTest && s.work == nil && !s.disabled:
			if err := s.takeUp(ctx, o); err != nil {
				return err
			}
		}
	}
	if s.work == nil && !s.disabled {
		s.at.Order = nil // the order is no longer in the store
	}
	return nil
}

// reportOrder stores the counts of the order, and its end.
func (s *session) reportOrder(ctx context.Context) error {
	w := s.work
	if w == nil {
		return nil
	}
	counts, was := w.counts(), w.order
	w.order.State, w.order.Messages, w.order.Sent, w.order.Failed = store.OrderRunning, counts.Messages, counts.Sent,
		counts.Failed
	if w.at.Done { // as the saved position says: after a crash before the report the next process makes it
		w.order.State = store.OrderDone
	}
	if w.order.State == was.State && counts == (orderCounts{was.Messages, was.Sent, was.Failed}) {
		return nil
	}
	if err := s.cfg.Store.ReportDestinationOrder(ctx, w.order); err != nil {
		return err
	}
	if w.order.State == store.OrderDone {
		s.log.InfoContext(ctx, "an order to a destination is done", slog.String("destination", s.dest.Name),
			slog.String("orderId", w.order.ID), slog.Int64("messages", counts.Messages),
			slog.Int64("failed", counts.Failed))
		s.work, s.at.Order = nil, nil
	}
	return nil
}

// takeUp begins an order, or resumes the one that the saved position names.
func (s *session) takeUp(ctx context.Context, o store.DestinationOrder) error {
	w := &orderWork{order: o, at: orderPosition{ID: o.ID}}
	if s.at.Order != nil {
		if s.at.Order.ID != o.ID {
			return nil // a later one in the list is under way
		}
		w.at = *s.at.Order
	}
	if err := s.prepare(ctx, w); err != nil {
		if errors.Is(err, errUnreadable) {
			o.State, o.Error = store.OrderFailed, "The order cannot be read: another version of dvt wrote it."
			return s.cfg.Store.ReportDestinationOrder(ctx, o)
		}
		return err
	}
	w.read, w.isRead = w.at, w.at.Done
	s.work, s.at.Order = w, &w.at
	s.nextSave = time.Now() // the position names the order before its first message is sent
	return nil
}

var errUnreadable = errors.New("notifier: the order cannot be read")

// prepare makes the reader of the messages of an order.
func (s *session) prepare(ctx context.Context, w *orderWork) (err error) {
	if w.order.Kind == store.OrderReplay {
		var r destination.Replay
		if json.Unmarshal(w.order.Doc, &r) != nil {
			return errUnreadable
		}
		if r.Until.IsZero() {
			r.Until = w.order.At
		}
		w.replay, err = newReplayReader(s.cfg.Store, s.dest.Entry(), r, w.at.Replay, s.cfg.Link)
		return err
	}
	if json.Unmarshal(w.order.Doc, &w.redrive) != nil {
		return errUnreadable
	}
	if w.at.Until > 0 {
		return nil
	}
	newest, err := s.cfg.Store.DeadDeliveries(ctx, store.DeadDeliveryFilter{Destination: s.dest.Name, Limit: 1})
	if err == nil && len(newest) > 0 {
		w.at.Until = newest[0].N
	}
	return err
}

// fillOrder reads messages of the order while there is room.
func (s *session) fillOrder(ctx context.Context) error {
	w := s.work
	for range readsOfOrder {
		if w == nil || !w.hasRoom() || !s.hasRoom() {
			return nil
		}
		messages, err := s.readOrder(ctx, w)
		if err != nil {
			return err
		}
		part := &orderPart{replay: w.read.Replay, letter: w.read.Letter, messages: int64(len(messages)),
			left: len(messages)}
		w.parts = append(w.parts, part)
		for _, m := range messages {
			d := &delivery{message: m, lane: laneOf(m), bytes: len(m.Data) + 1024, part: part}
			w.waiting++
			w.bytes += d.bytes
			s.enqueue(d)
		}
		w.forgetDone()
		if w.at.Done {
			s.nextSave = time.Now()
		}
	}
	return nil
}

// readOrder reads the next messages of an order, which may be none.
func (s *session) readOrder(ctx context.Context, w *orderWork) (out []destination.Message, err error) {
	if w.replay != nil {
		out, w.isRead, err = w.replay.next(ctx)
		w.read.Replay = w.replay.at
		return out, err
	}
	dead, err := s.cfg.Store.DeadDeliveries(ctx, store.DeadDeliveryFilter{Destination: s.dest.Name, IDs: w.redrive.IDs,
		After: w.read.Letter, OldestFirst: true, Limit: maxOrderWaiting})
	if err != nil {
		return nil, err
	}
	w.isRead = len(dead) < maxOrderWaiting
	for _, d := range dead {
		if d.N > w.at.Until {
			w.isRead = true
			break
		}
		w.read.Letter = d.N
		var m destination.Message
		if err := json.Unmarshal(d.Message, &m); err != nil {
			s.log.WarnContext(ctx, "a dead letter cannot be read and stays", slog.String("destination", s.dest.Name),
				slog.String("messageId", d.MessageID), slog.Any("error", err))
			continue
		}
		if m.Topic == destination.Audit {
			if m, err = s.reloadRecord(ctx, m); err != nil {
				return nil, err
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// laneOf returns the lane of a message that is sent again: that of new messages of its run or its alert, so that they
// do not overtake each other.
func laneOf(m destination.Message) string {
	if m.Topic == destination.Alerts && m.Alert != nil {
		return "alert/" + m.Alert.Key
	}
	if m.Topic == destination.Audit {
		return auditLane + m.TenantID
	}
	return "run/" + m.RunID
}

// acceptedOfOrder counts a message of an order that was accepted. It is no dead letter any more.
func (s *session) acceptedOfOrder(ctx context.Context, d *delivery) error {
	if d.part == nil {
		return nil
	}
	d.part.sent++
	if s.work.order.Kind != store.OrderRedrive {
		return nil
	}
	return s.cfg.Store.EndDeadDelivery(ctx, s.dest.Name, d.message.ID)
}

// testResult is the answer of a destination to a test.
type testResult struct {
	order store.DestinationOrder
	err   error
}

// startTest sends a test beside the lanes: it does not wait for other messages, is tried once, and is sent also while
// the destination is disabled.
func (s *session) startTest(ctx context.Context, o store.DestinationOrder) {
	s.testing = true
	test := destination.Message{
		ID: o.ID, Topic: destination.Alerts, Type: typeTest, At: o.At, Level: string(store.AlertLow),
		Data: json.RawMessage(`{"test":true}`),
		Alert: &destination.AlertText{Key: o.ID, Code: "TEST", Count: 1, Link: s.cfg.Link(""),
			Title: fmt.Sprintf("A test of the destination %s", s.dest.Name),
			Detail: fmt.Sprintf("%s asked for this message, to see whether it arrives. Nothing is wrong, and nobody has to do "+
				"anything.", o.Actor)},
	}
	s.tries.Go(func() {
		err := s.send(ctx, test)
		if err == nil && s.dest.Kind == destination.PagerDuty { // or the test would stay open there
			end, text := test, *test.Alert
			end.ID, text.Resolved, end.Alert = o.ID+"-end", true, &text
			err = s.send(ctx, end)
		}
		s.testResults <- testResult{o, err} // has room for the only test
	})
}

// finishTest stores the answer to a test.
func (s *session) finishTest(ctx context.Context, r testResult) error {
	s.testing = false
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the test was cut off and is sent again
	}
	o := r.order
	o.State, o.Messages, o.Sent = store.OrderDone, 1, 1
	s.changed = true
	if r.err == nil {
		s.noteAccepted(time.Now())
	} else {
		o.State, o.Sent, o.Failed, o.Error = store.OrderFailed, 0, 1, short(r.err.Error())
	}
	return s.cfg.Store.ReportDestinationOrder(ctx, o)
}
