package mapping

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/control/delivery"
	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// Destination maps a destination with its newest orders.
func Destination(d delivery.Destination) model.Destination {
	out := model.Destination{
		Name: d.Name, Kind: optionalEnum[model.DestinationKind](strings.ToUpper(string(d.Kind))),
		Address: Text(d.Address), State: enumOf[model.DestinationState](d.State), Why: d.Why, Since: d.Since,
		LastSentAt: d.LastSent, LastError: Text(d.LastError), Sent: int(d.Sent), Failed: int(d.Failed),
		DeadLetters: int(d.DeadLetters()), DroppedDeadLetters: int(d.Dropped),
		MissedRuns: int(d.MissedRuns), Waiting: int(d.Waiting),
		OldestWaitingAt: d.OldestWaiting, Orders: MapSlice(d.Orders, DeliveryOrder),
	}
	if d.State == delivery.Disabled {
		out.DisabledBy, out.BeginsAt = Text(d.DisabledBy), d.BeginsAt
	}
	if d.Kind != "" {
		out.Route = mapRoute(d.Entry)
	}
	return out
}

func mapRoute(e destination.Entry) *model.DestinationRoute {
	r := e.Route
	return &model.DestinationRoute{
		Topics:  MapSlice(r.Topics, func(t destination.Topic) string { return string(t) }),
		Tenants: append([]string{}, r.Tenants...), Projects: append([]string{}, r.Projects...),
		Types: append([]string{}, r.Types...), Levels: knownEnums[model.AlertLevel](r.Levels),
		Codes: append([]string{}, r.Codes...), Installation: r.Installation, Text: e.Words(),
	}
}

// DeliveryOrder maps an order.
func DeliveryOrder(o delivery.Order) model.DeliveryOrder {
	out := model.DeliveryOrder{
		ID: o.ID, Kind: enumOf[model.DeliveryOrderKind](o.Kind), State: enumOf[model.DeliveryOrderState](o.State),
		Actor: o.Actor, Reason: Text(o.Reason), At: o.At, EndedAt: o.EndedAt, Messages: int(o.Messages), Sent: int(o.Sent),
		Failed: int(o.Failed), Error: Text(o.Error),
	}
	if r := o.Replay; r != nil {
		out.Since, out.Until = &r.Since, new(r.Until)
		if r.Until.IsZero() {
			out.Until = &o.At
		}
	}
	return out
}

// Replay maps the range and the filter of a replay.
func Replay(since time.Time, until *time.Time, f *model.DeliveryFilter) destination.Replay {
	out := destination.Replay{Since: since.UTC(), Until: OrZero(until).UTC()}
	if f == nil {
		return out
	}
	out.Filter = destination.Route{Tenants: f.Tenants, Projects: f.Projects, Types: f.Types, Codes: f.Codes}
	for _, t := range f.Topics {
		out.Filter.Topics = append(out.Filter.Topics, destination.Topic(t))
	}
	for _, l := range f.Levels {
		out.Filter.Levels = append(out.Filter.Levels, string(l))
	}
	return out
}

// DeadDeliveries maps a page of dead letters that follows the cursor after.
func DeadDeliveries(page delivery.DeadDeliveriesPage, after string) *model.DeadDeliveryConnection {
	edges := MapSlice(page.Deliveries, func(d delivery.DeadDelivery) model.DeadDeliveryEdge {
		return model.DeadDeliveryEdge{Cursor: EncodeCursor(strconv.FormatInt(d.N, 10)), Node: new(deadDelivery(d))}
	})
	return &model.DeadDeliveryConnection{
		Edges:    edges,
		PageInfo: PageInfo(edges, func(e model.DeadDeliveryEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}

func deadDelivery(d delivery.DeadDelivery) model.DeadDelivery {
	var m destination.Message
	_ = json.Unmarshal(d.Message, &m) // a message that a later version wrote has no type here
	return model.DeadDelivery{ID: strconv.FormatInt(d.N, 10), MessageID: d.MessageID, Type: m.Type, At: d.At,
		TenantID: Text(d.TenantID), RunID: Text(d.RunID), Tries: d.Tries, Error: d.Error, Message: d.Message}
}
