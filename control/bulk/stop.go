package bulk

import (
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// actionStopBulk is what the audit calls the stop of a bulk.
const actionStopBulk authz.Action = "CANCEL_BULK"

// CancelBulk asks to stop a bulk.
type CancelBulk struct {
	ID        string
	RequestID string
	Reason    string
}

// CancelBulk stops one of p's own bulks: signals that wait are not sent, and their rows say NOT_SENT as soon as a
// server has looked at them. None is sent after it answered, by whomever. What was sent stays so. A bulk that is
// finished or was stopped is left as it is, and only the first stop is audited. NOT_FOUND as Bulk.
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
