package delivery

import (
	"context"
	"strconv"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// DeadDelivery is a message that a destination did not accept, for callers that do not know the store.
type DeadDelivery = store.DeadDelivery

// DeadDeliveriesQuery asks for a page of the dead letters of a destination, the newest first.
type DeadDeliveriesQuery struct {
	Name  string
	First int
	After string // number of the last dead letter of the page before
}

// DeadDeliveriesPage is a page of dead letters.
type DeadDeliveriesPage struct {
	Deliveries []DeadDelivery
	HasNext    bool
}

// DeadDeliveries reads a page of the dead letters of a destination. Without an operators' tenant it returns only those
// of p's tenant and of the installation, because the messages of other tenants are theirs. Errors: FORBIDDEN,
// BAD_USER_INPUT, NOT_FOUND, CURSOR_INVALID, UNAVAILABLE.
func (s *DestinationReader) DeadDeliveries(ctx context.Context, p authz.Principal,
	q DeadDeliveriesQuery) (DeadDeliveriesPage, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return DeadDeliveriesPage{}, err
	}
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return DeadDeliveriesPage{}, err
	}
	f := store.DeadDeliveryFilter{Destination: q.Name, Limit: n + 1}
	if s.rights.Operators == "" {
		f.TenantID = p.TenantID
	}
	if q.After != "" {
		if f.Before, err = strconv.ParseInt(q.After, 10, 64); err != nil || f.Before < 1 {
			return DeadDeliveriesPage{}, control.CursorInvalid()
		}
	}
	if _, err := s.get(ctx, q.Name); err != nil {
		return DeadDeliveriesPage{}, err
	}
	rows, err := s.store.DeadDeliveries(ctx, f)
	if err != nil {
		return DeadDeliveriesPage{}, control.Translate(err)
	}
	return DeadDeliveriesPage{Deliveries: rows[:min(n, len(rows))], HasNext: len(rows) > n}, nil
}
