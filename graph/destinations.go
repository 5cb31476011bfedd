package graph

import (
	"context"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/delivery"
	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// DeliveryService reads and steers the deliveries to other systems.
type DeliveryService interface { //nolint:interfacebloat // one subject: the deliveries to other systems
	Destinations(ctx context.Context, p authz.Principal) ([]delivery.Destination, error)
	Destination(ctx context.Context, p authz.Principal, name string) (delivery.Destination, error)
	DeadDeliveries(ctx context.Context, p authz.Principal,
		q delivery.DeadDeliveriesQuery) (delivery.DeadDeliveriesPage, error)
	PreviewReplay(ctx context.Context, p authz.Principal, name string,
		r destination.Replay) (destination.ReplayCount, error)
	TestDestination(ctx context.Context, p authz.Principal, in delivery.TestDestination) (delivery.MadeOrder, error)
	SwitchDestination(ctx context.Context, p authz.Principal,
		in delivery.SwitchDestination) (delivery.SwitchedDestination, error)
	ReplayDestination(ctx context.Context, p authz.Principal, in delivery.ReplayDestination) (delivery.MadeOrder, error)
	RedriveDeliveries(ctx context.Context, p authz.Principal, in delivery.RedriveDeliveries) (delivery.MadeOrder, error)
}

func (q queries) Destinations(ctx context.Context) ([]model.Destination, error) {
	all, err := q.control.Destinations(ctx, principal(ctx))
	if err != nil {
		return nil, err
	}
	return mapping.MapSlice(all, mapping.Destination), nil
}

func (q queries) Destination(ctx context.Context, name string) (*model.Destination, error) {
	d, err := q.control.Destination(ctx, principal(ctx), name)
	if err != nil {
		return nullIfNotFound[model.Destination](err)
	}
	return new(mapping.Destination(d)), nil
}

func (q queries) DeadDeliveries(ctx context.Context, name string, first *int,
	after *string) (*model.DeadDeliveryConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.DeadDeliveries(ctx, principal(ctx), delivery.DeadDeliveriesQuery{Name: name,
		First: mapping.OrZero(first), After: cursor})
	if err != nil {
		return nil, err
	}
	return mapping.DeadDeliveries(page, cursor), nil
}

func (q queries) PreviewReplay(ctx context.Context, name string, since time.Time, until *time.Time,
	filter *model.DeliveryFilter) (*model.ReplayPreview, error) {
	count, err := q.control.PreviewReplay(ctx, principal(ctx), name, mapping.Replay(since, until, filter))
	if err != nil {
		return nil, err
	}
	return &model.ReplayPreview{Messages: count.Messages, More: count.More, First: mapping.Optional(count.First),
		Last: mapping.Optional(count.Last)}, nil
}

func (m mutations) TestDestination(ctx context.Context,
	in model.TestDestinationInput) (*model.DeliveryOrderPayload, error) {
	out, err := m.control.TestDestination(ctx, principal(ctx), delivery.TestDestination{RequestID: in.RequestID,
		Name: in.Name})
	return orderPayload(out, err)
}

func (m mutations) EnableDestination(ctx context.Context,
	in model.SwitchDestinationInput) (*model.DestinationPayload, error) {
	return m.switchDestination(ctx, in, true)
}

func (m mutations) DisableDestination(ctx context.Context,
	in model.SwitchDestinationInput) (*model.DestinationPayload, error) {
	return m.switchDestination(ctx, in, false)
}

func (m mutations) switchDestination(ctx context.Context, in model.SwitchDestinationInput,
	enable bool) (*model.DestinationPayload, error) {
	out, err := m.control.SwitchDestination(ctx, principal(ctx), delivery.SwitchDestination{RequestID: in.RequestID,
		Name: in.Name, Reason: in.Reason, Enable: enable})
	if err != nil {
		return nil, err
	}
	return &model.DestinationPayload{Destination: new(mapping.Destination(out.Destination)),
		Change: mapping.Change(out.Change)}, nil
}

func (m mutations) ReplayDestination(ctx context.Context,
	in model.ReplayDestinationInput) (*model.DeliveryOrderPayload, error) {
	out, err := m.control.ReplayDestination(ctx, principal(ctx), delivery.ReplayDestination{RequestID: in.RequestID,
		Name: in.Name, Reason: in.Reason, Replay: mapping.Replay(in.Since, in.Until, in.Filter)})
	return orderPayload(out, err)
}

func (m mutations) RedriveDeliveries(ctx context.Context,
	in model.RedriveDeliveriesInput) (*model.DeliveryOrderPayload, error) {
	ask := delivery.RedriveDeliveries{RequestID: in.RequestID, Name: in.Name, Reason: in.Reason,
		All: mapping.OrZero(in.All)}
	for _, id := range in.Ids {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			n = 0 // no dead letter has it, so that the answer is NOT_FOUND after rights were checked
		}
		ask.IDs = append(ask.IDs, n)
	}
	out, err := m.control.RedriveDeliveries(ctx, principal(ctx), ask)
	return orderPayload(out, err)
}

func orderPayload(out delivery.MadeOrder, err error) (*model.DeliveryOrderPayload, error) {
	if err != nil {
		return nil, err
	}
	return &model.DeliveryOrderPayload{Order: new(mapping.DeliveryOrder(out.Order)), Change: mapping.Change(out.Change)},
		nil
}
