package admission

import (
	"time"

	"github.com/dvt-engine/dvt/store"
)

// maxAdmitted is the most runs that one transaction admits: it holds the lanes of everybody.
const maxAdmitted = 16

// InRounds admits up to limit runs, a few at a time by some, while outlook says that something is
// ready; some says that no place is left. Else outlook says when to look again.
func InRounds(
	limit int, outlook func() (ready bool, next time.Duration, err error), some func(n int) (rows []store.QueueRow,
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
		rows, full, err := some(min(maxAdmitted, limit-len(out.Rows)))
		if err != nil {
			return out, err
		}
		if out.Rows = append(out.Rows, rows...); full {
			out.Next = Recheck
			return out, nil
		}
	}
}
