package bulk

import (
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// actionStopBulk is the action of stopping a bulk in the audit.
const actionStopBulk authz.Action = "CANCEL_BULK"

// CancelBulk asks to stop a bulk.
type CancelBulk struct {
	ID        string
	RequestID string
	Reason    string
}

// CancelBulk stops one of p's own bulks. No server sends another signal of it after CancelBulk has returned. Waiting
// rows become NOT_SENT as soon as a server has processed them. Signals that were sent are not taken back. A finished or
// stopped bulk does not change, and only the first stop is audited. Errors: BAD_USER_INPUT, NOT_FOUND as for Bulk.
func (s *Requester) CancelBulk(ctx context.Context, p authz.Principal, in CancelBulk) (Bulk, error) {
	if vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason); len(vs) > 0 {
		return Bulk{}, control.BadInput(vs)
	}
	if _, err := s.reader.Bulk(ctx, p, in.ID); err != nil {
		return Bulk{}, err
	}
	row := store.AuditRow{Action: string(actionStopBulk), RequestID: in.RequestID, Reason: in.Reason}
	s.rights.Stamp(p, &row, "ACCEPTED", fmt.Sprintf(`{"bulkId":%q}`, in.ID))
	b, _, err := s.store.StopBulk(ctx, in.ID, row)
	if err != nil {
		return Bulk{}, control.Translate(err)
	}
	control.Wake(s.Wake)
	return bulkView(b)
}
