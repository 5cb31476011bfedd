package sqlite

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// hot lists the statements whose cost must not grow with a run or the log.
var hot = map[string]string{
	"identity":         identitySQL,
	"head":             headSQL,
	"facts of one":     factsOf[0],
	"head of one":      headsOf[0],
	"facts of many":    factsOf[2],
	"heads of runs":    headsOf[2],
	"insert events":    insertEvents[2],
	"write heads":      writeHeads[2],
	"mark runs dirty":  markAllDirty[2],
	"end of run":       endOfRun,
	"repair":           repairSQL,
	"insert event":     insertEvents[0],
	"write head":       writeHead,
	"mark dirty":       markDirty,
	"events":           eventsAfter,
	"events before":    eventsBefore,
	"heads":            headsSQL,
	"load and since":   loadSQL,
	"checkpoint":       storedSQL,
	"number a change":  nextChangeSQL,
	"write header":     writeHeader,
	"advance header":   advanceHeader,
	"write step":       writeStep,
	"dirty runs":       dirtySQL,
	"published seq":    publishedSQL,
	"published, clean": cleanSQL,
	"published, dirty": stillDirtySQL,
	"publish failed":   publishFailedSQL,
	"add dead letter":  addDeadLetterSQL,
	"receipt":          receiptSQL,
	"enqueue":          enqueueSQL,
	"wake lanes":       wakeSQL,
	"defer lane":       deferLaneSQL,
	"defer tenant":     deferTenantSQL,
	"admit":            admitSQL,
	"expired":          expiredWaitingSQL,
	"lease":            leaseSQL,
	"stuck starts":     stuckStartsSQL,
}

func TestPlans_HotStatementsProbeIndexes(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	for name, query := range hot {
		err := s.write(t.Context(), func(c *conn) error {
			args := make([]any, strings.Count(query, "?"))
			return c.query(t.Context(), name, "EXPLAIN QUERY PLAN "+query, args, func(r row) error {
				detail, _ := r[3].(string)
				wholeRun := detail == "SEARCH e USING PRIMARY KEY (run_id=?)" ||
					detail == "SEARCH event USING PRIMARY KEY (run_id=?)"
				if wholeRun || strings.HasPrefix(detail, "SCAN ") && !harmless(detail) || strings.Contains(detail, "AUTOMATIC") {
					t.Errorf("%s reads a whole run or table: %s", name, detail)
				}
				return nil
			})
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// harmless reports whether a scan reads only the arguments of the call or one row.
func harmless(detail string) bool {
	for _, scan := range []string{"SCAN CONSTANT ROW", "SCAN json_each VIRTUAL TABLE", "SCAN (subquery",
		"SCAN want", "SCAN 4 CONSTANT ROWS", "SCAN 4-ROW VALUES CLAUSE"} {
		if strings.HasPrefix(detail, scan) {
			return true
		}
	}
	return false
}

// The next run is found by the partial indexes of waiting and ready rows, so the cost does not depend on the other
// rows.
// contract: Q12
func TestPlans_PicksReadPartialIndexes(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	for query, indexes := range map[string][]string{
		pickSQL:           {"lane_tenants", "lane_projects", "run_queue_lane"},
		outlookSQL:        {"lane_tenants", "lane_held"},
		wakeSQL:           {"lane_held"},
		expiredWaitingSQL: {"run_queue_expiry"},
		leaseSQL:          {"run_queue_due (waiting=?)"},
		stuckStartsSQL:    {"run_queue_due (waiting=?)"},
		arrivalSQL: {"SEARCH i USING PRIMARY KEY", "SEARCH t USING PRIMARY KEY", "SEARCH p USING PRIMARY KEY",
			"lane_tenants"},
		freeSlotSQL: {"PRIMARY KEY (run_id=?)"},
	} {
		var plan []string
		err := s.write(t.Context(), func(c *conn) error {
			return c.query(t.Context(), "plan", "EXPLAIN QUERY PLAN "+query, make([]any, parameters(query)), func(r row) error {
				detail, _ := r[3].(string)
				plan = append(plan, detail)
				if table := strings.HasPrefix(detail, "SCAN lane") || strings.HasPrefix(detail, "SCAN run_queue"); table &&
					!strings.Contains(detail, "USING INDEX lane_") {
					t.Errorf("%s reads a whole table: %s", query, detail)
				}
				return nil
			})
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		text := strings.Join(plan, "\n")
		for _, index := range indexes {
			if !strings.Contains(text, index) {
				t.Errorf("%s does not use %s:\n%s", query, index, text)
			}
		}
		if strings.Contains(text, "USE TEMP B-TREE") {
			t.Errorf("%s sorts, want an index in the right order:\n%s", query, text)
		}
	}
}

// freeSlotSQL is the statement of the trigger at the end of a run.
const freeSlotSQL = `UPDATE run_queue SET slot = 0, waiting = 0 WHERE run_id = ? AND (slot = 1 OR waiting = 1)`

// parameters returns the number of values that a query needs.
func parameters(query string) int {
	n := strings.Count(query, "?")
	for i := 9; i > 0; i-- {
		if strings.Contains(query, "?"+strconv.Itoa(i)) {
			return i
		}
	}
	return n
}
