// Package delivery has the use cases about deliveries to other systems: reading the state of destinations, and ordering
// tests, replays and redrives. The process that works for a destination carries the orders out.
package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Store is the part of the store that a DestinationReader needs.
type Store interface {
	DestinationStates(ctx context.Context) ([]store.DestinationState, error)
	GetDestination(ctx context.Context, name string) (store.DestinationState, error)
	DestinationOrders(ctx context.Context, names []string, each int) ([]store.DestinationOrder, error)
	DeadDeliveries(ctx context.Context, f store.DeadDeliveryFilter) ([]store.DeadDelivery, error)
}

// DestinationReader reads the state of destinations and their dead letters. It is safe for concurrent use.
type DestinationReader struct {
	rights *control.Rights
	store  Store
}

// NewDestinationReader makes a DestinationReader.
func NewDestinationReader(rights *control.Rights, store Store) *DestinationReader {
	return &DestinationReader{rights: rights, store: store}
}

// State is what a destination does now.
type State string

// States of destinations.
const (
	Sending  State = "SENDING"
	Waiting  State = "WAITING"  // no process works for it
	Failing  State = "FAILING"  // it has accepted nothing since the last try
	Disabled State = "DISABLED" // by a person, or because it answered that it wants no more messages
	Removed  State = "REMOVED"  // it is no longer in the file
)

const (
	// freshReport is the age up to which a report says that a process works for a destination. Reports come every 15 s.
	freshReport = time.Minute
	// OrdersOfDestination is the number of the newest orders that a destination shows.
	OrdersOfDestination = 20
)

// Destination is a destination as operators see it.
type Destination struct {
	store.DestinationState
	destination.Entry // zero until a process has reported
	State             State
	Why               string
	Since             *time.Time // of the state; nil when it is not known
	Orders            []Order    // the newest first
}

// DeadLetters is the number of dead letters that are kept.
func (d Destination) DeadLetters() int64 { return d.Dead - d.Dropped - d.Redriven }

// Order is an order with what it asks.
type Order struct {
	store.DestinationOrder
	Replay *destination.Replay // of a REPLAY
}

// OrderState is the progress of an order.
type OrderState = store.DestinationOrderState

// Destinations lists all destinations that a process reported, by name. Errors: FORBIDDEN for callers other than
// operators, UNAVAILABLE.
func (s *DestinationReader) Destinations(ctx context.Context, p authz.Principal) ([]Destination, error) {
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return nil, err
	}
	states, err := s.store.DestinationStates(ctx)
	if err != nil {
		return nil, control.Translate(err)
	}
	return s.withOrders(ctx, states)
}

// Destination reads one destination. Errors as Destinations, and NOT_FOUND.
func (s *DestinationReader) Destination(ctx context.Context, p authz.Principal, name string) (Destination, error) {
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return Destination{}, err
	}
	return s.get(ctx, name)
}

// get reads one destination for a caller who may see it.
func (s *DestinationReader) get(ctx context.Context, name string) (Destination, error) {
	d, err := s.store.GetDestination(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return Destination{}, control.Refuse(run.CodeNotFound, "There is no destination of this name.")
	}
	if err != nil {
		return Destination{}, control.Translate(err)
	}
	out, err := s.withOrders(ctx, []store.DestinationState{d})
	if err != nil {
		return Destination{}, err
	}
	return out[0], nil
}

func (s *DestinationReader) withOrders(ctx context.Context, states []store.DestinationState) ([]Destination, error) {
	names := make([]string, len(states))
	for i, d := range states {
		names[i] = d.Name
	}
	rows, err := s.store.DestinationOrders(ctx, names, OrdersOfDestination)
	if err != nil {
		return nil, control.Translate(err)
	}
	orders := map[string][]Order{}
	for _, o := range rows {
		orders[o.Destination] = append(orders[o.Destination], newOrder(o))
	}
	out := make([]Destination, len(states))
	for i, d := range states {
		out[i] = newDestination(d, s.rights.Now())
		out[i].Orders = orders[d.Name]
	}
	return out, nil
}

// newDestination says what a destination does now.
func newDestination(d store.DestinationState, now time.Time) Destination {
	out := Destination{DestinationState: d}
	if d.Entry != nil && json.Unmarshal(d.Entry, &out.Entry) != nil {
		out.Entry = destination.Entry{} // a later version wrote it
	}
	switch {
	case d.RemovedAt != nil:
		out.State, out.Since = Removed, d.RemovedAt
		out.Why = "It is no longer in the file of destinations. It is forgotten after 30 days."
	case d.DisabledFor == store.DisabledByPerson, d.DisabledFor != "" && d.DisabledFor == d.Digest:
		out.State, out.Since, out.Why = Disabled, d.DisabledAt, d.DisabledWhy
	case d.ReportedAt == nil:
		out.State, out.Why = Waiting, "No process has worked for it yet."
	case now.Sub(*d.ReportedAt) > freshReport:
		out.State, out.Since = Waiting, d.ReportedAt
		out.Why = "No process works for it: none with the duty notify reports. Messages wait and are sent later."
	case d.FailingSince != nil:
		out.State, out.Since = Failing, d.FailingSince
		out.Why = fmt.Sprintf("It has accepted nothing since then. Messages that it refuses become dead letters; others wait "+
			"and are sent again. Its last error: %s", d.LastError)
	default:
		out.State, out.Since, out.Why = Sending, d.LastSent, "It accepts messages."
		if d.LastSent == nil {
			out.Why = "It has accepted no message yet."
		}
	}
	return out
}

func newOrder(o store.DestinationOrder) Order {
	out := Order{DestinationOrder: o}
	if o.Kind == store.OrderReplay {
		var r destination.Replay
		if json.Unmarshal(o.Doc, &r) == nil {
			out.Replay = &r
		}
	}
	return out
}
