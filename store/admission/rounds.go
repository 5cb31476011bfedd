package admission

import (
	"time"

	"github.com/dvt-engine/dvt/store"
)

// maxAdmitted limits the runs that one transaction admits. It is low because the transaction locks the lanes of all
// tenants.
const maxAdmitted = 16

// AdmitInRounds admits up to limit runs in several transactions. Before each, outlook reports whether a lane is ready,
// and if none is, in what time to look again. admit admits up to n runs in one transaction; full says that the
// installation has no slot left, which ends the rounds.
func AdmitInRounds(
	limit int, outlook func() (ready bool, next time.Duration, err error), admit func(n int) (rows []store.QueueRow,
		full bool, err error),
) (out store.Admitted, err error) {
	for {
		ready, next, err := outlook()
		if err != nil || !ready {
			out.Next = next
			return out, err
		}
		if len(out.Rows) >= limit {
			out.Next = time.Millisecond
			return out, nil
		}
		rows, full, err := admit(min(maxAdmitted, limit-len(out.Rows)))
		if err != nil {
			return out, err
		}
		if out.Rows = append(out.Rows, rows...); full {
			out.Next = Recheck
			return out, nil
		}
	}
}
