package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The actions of audit rows about destinations. They need SET_ENGINE_MODE in the operators' tenant, because messages of
// all tenants are concerned.
const (
	ActionTest    = "TEST_DESTINATION"
	ActionEnable  = "ENABLE_DESTINATION"
	ActionDisable = "DISABLE_DESTINATION"
	ActionReplay  = "REPLAY_DESTINATION"
	ActionRedrive = "REDRIVE_DELIVERIES"
)

// MaxRedrive is the greatest number of ids of one RedriveDeliveries.
const MaxRedrive = 200

// SteeringStore is the part of the store that a DestinationSteerer needs.
type SteeringStore interface {
	SwitchDestination(ctx context.Context, s store.DestinationSwitch, audit ...store.AuditRow) error
	PutDestinationOrder(ctx context.Context, o store.DestinationOrder,
		audit ...store.AuditRow) (store.DestinationOrder, error)
	GetDestinationOrder(ctx context.Context, id string) (store.DestinationOrder, error)
	DeadDeliveries(ctx context.Context, f store.DeadDeliveryFilter) ([]store.DeadDelivery, error)
}

// DestinationSteerer tests, enables and disables destinations, and has messages sent again. It is safe for concurrent
// use.
type DestinationSteerer struct {
	rights *control.Rights
	store  SteeringStore
	reader *DestinationReader
	// TestWait is how long TestDestination waits for an answer.
	TestWait time.Duration
}

// NewDestinationSteerer makes a DestinationSteerer.
func NewDestinationSteerer(rights *control.Rights, store SteeringStore, reader *DestinationReader) *DestinationSteerer {
	return &DestinationSteerer{rights: rights, store: store, reader: reader, TestWait: 15 * time.Second}
}

// TestDestination asks for a message that says that it is a test.
type TestDestination struct{ RequestID, Name string }

// SwitchDestination asks to enable or to disable a destination.
type SwitchDestination struct {
	RequestID, Name, Reason string
	Enable                  bool
}

// SwitchedDestination is the destination and the receipt, which is zero when nothing changed.
type SwitchedDestination struct {
	Destination Destination
	Change      control.Change
}

// ReplayDestination asks for the messages of a range of time again.
type ReplayDestination struct {
	RequestID, Name, Reason string
	Replay                  destination.Replay
}

// RedriveDeliveries asks for dead letters again: those of IDs, or all.
type RedriveDeliveries struct {
	RequestID, Name, Reason string
	IDs                     []int64
	All                     bool
}

// MadeOrder is an order and the receipt of its request.
type MadeOrder struct {
	Order  Order
	Change control.Change
}

// SwitchDestination enables or disables a destination. The process that works for it obeys within 5 s. Errors:
// FORBIDDEN for callers other than operators with SET_ENGINE_MODE, BAD_USER_INPUT, NOT_FOUND, UNAVAILABLE. Accepted and
// denied calls are audited.
func (s *DestinationSteerer) SwitchDestination(ctx context.Context, p authz.Principal,
	in SwitchDestination) (SwitchedDestination, error) {
	row := store.AuditRow{Action: ActionDisable, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	change := store.DestinationSwitch{Name: in.Name, For: store.DisabledByPerson, Why: in.Reason, By: p.ID}
	if in.Enable {
		row.Action, change.For, change.Why = ActionEnable, "", ""
	}
	d, err := s.check(ctx, p, row, in.Name, control.CheckReason(nil, in.Reason))
	if err != nil {
		return SwitchedDestination{}, err
	}
	if in.Enable && d.State != Disabled && d.DisabledFor == "" || !in.Enable && d.DisabledFor == store.DisabledByPerson {
		return SwitchedDestination{Destination: d}, nil
	}
	if err := s.stamp(p, &row, in.Name, nil); err != nil {
		return SwitchedDestination{}, err
	}
	if err := s.store.SwitchDestination(ctx, change, row); err != nil {
		return SwitchedDestination{}, control.Translate(err)
	}
	d, err = s.reader.get(ctx, in.Name)
	return SwitchedDestination{Destination: d, Change: s.receipt(p, row)}, err
}

// TestDestination sends a test and waits for its result, at most TestWait. Errors as SwitchDestination, and
// TOO_MANY_ORDERS, REQUEST_ID_CONFLICT.
func (s *DestinationSteerer) TestDestination(ctx context.Context, p authz.Principal,
	in TestDestination) (MadeOrder, error) {
	row := store.AuditRow{Action: ActionTest, RequestID: in.RequestID}
	out, err := s.order(ctx, p, row, in.Name, store.OrderTest, struct{}{}, nil)
	if err != nil {
		return MadeOrder{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.TestWait)
	defer cancel()
	for !out.Order.State.IsFinal() {
		select {
		case <-ctx.Done():
			return out, nil // it is still under way
		case <-time.After(200 * time.Millisecond):
		}
		o, err := s.store.GetDestinationOrder(ctx, out.Order.ID)
		if err != nil && ctx.Err() == nil {
			return MadeOrder{}, control.Translate(err)
		}
		if err == nil {
			out.Order = newOrder(o)
		}
	}
	return out, nil
}

// ReplayDestination has messages sent again. Errors as TestDestination.
func (s *DestinationSteerer) ReplayDestination(ctx context.Context, p authz.Principal,
	in ReplayDestination) (MadeOrder, error) {
	row := store.AuditRow{Action: ActionReplay, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	vs := append(control.CheckReason(nil, in.Reason), checkReplay(in.Replay)...)
	return s.order(ctx, p, row, in.Name, store.OrderReplay, in.Replay, vs)
}

// RedriveDeliveries has dead letters sent again. Errors as TestDestination; NOT_FOUND also for an id that is no dead
// letter of the destination.
func (s *DestinationSteerer) RedriveDeliveries(ctx context.Context, p authz.Principal,
	in RedriveDeliveries) (MadeOrder, error) {
	row := store.AuditRow{Action: ActionRedrive, Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	vs := control.CheckReason(nil, in.Reason)
	if in.All == (len(in.IDs) > 0) {
		vs = append(vs, plan.Violation{Path: "ids", Code: "INVALID", Message: "give either ids or all: true"})
	}
	if len(in.IDs) > MaxRedrive {
		vs = append(vs, plan.Violation{Path: "ids", Code: plan.CodeRange,
			Message: fmt.Sprintf("must be at most %d ids", MaxRedrive)})
	}
	return s.order(ctx, p, row, in.Name, store.OrderRedrive, destination.Redrive{IDs: in.IDs}, vs)
}

// check decides about a request: rights first, then what is wrong with it, then whether the destination exists.
func (s *DestinationSteerer) check(ctx context.Context, p authz.Principal, row store.AuditRow, name string,
	vs []plan.Violation) (Destination, error) {
	if err := s.rights.CheckMaySetMode(ctx, p, row, "steer deliveries"); err != nil {
		return Destination{}, err
	}
	vs = append(control.CheckID(nil, "requestId", row.RequestID), append(checkName(name), vs...)...)
	if len(vs) > 0 {
		return Destination{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	d, err := s.reader.get(ctx, name)
	if err == nil && d.State == Removed {
		err = control.Refuse(run.CodeNotFound, "The destination is no longer in the file of destinations.")
	}
	return d, err
}

// checkName returns what is wrong with the name of a destination.
func checkName(name string) []plan.Violation {
	if name == "" || len(name) > maxName || !run.IsText(name) {
		return []plan.Violation{{Path: "name", Code: "INVALID", Message: "must be text of 1 to 63 bytes"}}
	}
	return nil
}

// maxName is the longest name of a destination, in bytes.
const maxName = 63

// order stores an order. A repetition returns the first one.
func (s *DestinationSteerer) order(ctx context.Context, p authz.Principal, row store.AuditRow, name string,
	kind store.DestinationOrderKind, asked any, vs []plan.Violation) (MadeOrder, error) {
	if _, err := s.check(ctx, p, row, name, vs); err != nil {
		return MadeOrder{}, err
	}
	doc, err := json.Marshal(asked)
	if err != nil {
		return MadeOrder{}, control.Translate(err)
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt order|%s|%s|%s", p.TenantID, p.ID,
		row.RequestID)).String()
	if _, err := s.store.GetDestinationOrder(ctx, id); errors.Is(err, store.ErrNotFound) {
		// A repetition may name dead letters that the first request has ended.
		if err := s.checkLetters(ctx, name, asked); err != nil {
			return MadeOrder{}, err
		}
	}
	if err := s.stamp(p, &row, name, asked); err != nil {
		return MadeOrder{}, err
	}
	o, err := s.store.PutDestinationOrder(ctx, store.DestinationOrder{
		ID: id, Destination: name, Kind: kind, TenantID: p.TenantID, Actor: p.ID, RequestID: row.RequestID,
		Reason: row.Reason, Doc: doc,
	}, row)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return MadeOrder{}, control.Refuse(run.CodeTooManyOrders,
			"The destination has %d open orders, which is the limit. Wait until one has ended.", store.MaxOpenOrders)
	case err != nil:
		return MadeOrder{}, control.Translate(err)
	case o.Destination != name || o.Kind != kind || !bytes.Equal(o.Doc, doc):
		return MadeOrder{}, control.Refuse(run.CodeRequestConflict, "This requestId was used for another order.")
	}
	change := s.receipt(p, row)
	change.At = o.At
	return MadeOrder{Order: newOrder(o), Change: change}, nil
}

// checkLetters returns NOT_FOUND unless each id of a redrive is a dead letter of the destination.
func (s *DestinationSteerer) checkLetters(ctx context.Context, name string, asked any) error {
	r, is := asked.(destination.Redrive)
	if !is || len(r.IDs) == 0 {
		return nil
	}
	found, err := s.store.DeadDeliveries(ctx, store.DeadDeliveryFilter{Destination: name, IDs: r.IDs, Limit: MaxRedrive})
	if err != nil {
		return control.Translate(err)
	}
	known := map[int64]bool{}
	for _, d := range found {
		known[d.N] = true
	}
	for _, id := range r.IDs {
		if !known[id] {
			if id == 0 { // a text that is no number
				return control.Refuse(run.CodeNotFound, "One of the ids is no dead letter of this destination.")
			}
			return control.Refuse(run.CodeNotFound, "There is no dead letter %d of this destination.", id)
		}
	}
	return nil
}

func (s *DestinationSteerer) stamp(p authz.Principal, row *store.AuditRow, name string, asked any) error {
	doc, err := json.Marshal(struct {
		Destination string `json:"destination"`
		Asked       any    `json:"asked,omitempty"`
	}{name, asked})
	if err != nil {
		return control.Translate(err)
	}
	s.rights.Stamp(p, row, "ACCEPTED", string(doc))
	return nil
}

func (s *DestinationSteerer) receipt(p authz.Principal, row store.AuditRow) control.Change {
	return control.Change{Action: row.Action, RequestID: row.RequestID, Actor: p.ID, At: s.rights.Now()}
}
