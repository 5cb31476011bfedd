package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
)

// hot are the statements whose price may not grow with a run or with the log.
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
	"refused":          refusedSQL,
	"bury":             burySQL,
	"receipt":          receiptSQL,
}

func TestPlans_HotStatementsProbeIndexes(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	for name, query := range hot {
		err := s.write(t.Context(), func(c *conn) error {
			args := make([]any, strings.Count(query, "?"))
			return c.query(t.Context(), name, "EXPLAIN QUERY PLAN "+query, args, func(r row) error {
				detail, _ := r[3].(string)
				wholeRun := detail == "SEARCH e USING PRIMARY KEY (run_id=?)" || detail == "SEARCH event USING PRIMARY KEY (run_id=?)"
				if wholeRun || strings.HasPrefix(detail, "SCAN ") && !harmless(detail) || strings.Contains(detail, "AUTOMATIC") {
					t.Errorf("%s: %s", name, detail)
				}
				return nil
			})
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// harmless scans are of what the call itself brings, or of one row.
func harmless(detail string) bool {
	for _, scan := range []string{"SCAN CONSTANT ROW", "SCAN json_each VIRTUAL TABLE", "SCAN (subquery",
		"SCAN want", "SCAN 4 CONSTANT ROWS", "SCAN 4-ROW VALUES CLAUSE"} {
		if strings.HasPrefix(detail, scan) {
			return true
		}
	}
	return false
}
