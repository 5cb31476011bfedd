package export

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/store"
)

// actionRetain is the action of the audit rows in which the retention counts what a pass deleted.
const actionRetain = "RETAIN"

// retained is the detail of such a row, without what a pass only moved into the archive.
type retained struct {
	Deleted  int64 `json:"deleted"` // runs
	Receipts int64 `json:"receipts"`
	Objects  int64 `json:"objects"` // logs and artifacts
	Rows     int64 `json:"rows"`
}

// noteRemoved adds a note when the retention deleted anything of the tenant after the export began. What the export had
// listed and not read has notes of its own; this one tells of what it had not even listed.
func (e *exporter) noteRemoved(ctx context.Context) error {
	var sum retained
	for after := e.work.state.AuditNo; ; {
		if _, err := e.Store.LinkAudit(ctx, store.MaxPage); err != nil {
			return err
		}
		links, err := e.Store.AuditLinks(ctx, store.AuditFilter{TenantID: e.Of.TenantID, After: after, Action: actionRetain,
			Limit: store.MaxPage})
		if err != nil {
			return err
		}
		for _, l := range links {
			after = l.No
			var d retained
			if json.Unmarshal(l.Row.Detail, &d) != nil {
				continue // an older program wrote it
			}
			sum.Deleted += d.Deleted
			sum.Receipts += d.Receipts
			sum.Objects += d.Objects
			sum.Rows += d.Rows
		}
		if len(links) < store.MaxPage {
			break
		}
	}
	if sum == (retained{}) {
		return nil
	}
	return e.work.add(File{Path: "retention", Problem: fmt.Sprintf("after the export began, the retention deleted "+
		"%d runs, %d logs and artifacts, %d receipts and %d other rows; what the export had not read by then is missing",
		sum.Deleted, sum.Objects, sum.Receipts, sum.Rows)})
}
