package notifier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// Two processes deliver, each over its own network to PostgreSQL. One is cut off for longer than its leases while
// events go on, and then the other. The network keeps the bytes that were under way and delivers them afterwards. No
// event is lost, the order of each run stays, and a process that is back sends nothing that the other one has sent.
func TestPartition_TwoProcessesThatAreCutOffInTurnLoseNothing(t *testing.T) {
	t.Parallel()
	const lease, part = 2 * time.Second, 60
	c := startCampaign(t, lease, false)
	dsn := ""
	for _, v := range c.env {
		if at, found := strings.CutPrefix(v, campaignDSN+"="); found {
			dsn = at
		}
	}
	var networks [2]*testserver.PostgresProxy
	for i := range networks {
		networks[i] = testserver.NewPostgresProxy(t, dsn)
		p := c.spawn(campaignDSN + "=" + networks[i].DSN)
		defer c.kill(p)
	}
	c.waitForLeases()
	deliver := func(what string) {
		t.Helper()
		c.write(c.events+part, time.Second)
		c.waitFor(what, func() bool {
			_, all := c.ledger.total(c.events)
			return all
		})
	}
	for i, network := range networks {
		deliver("the events before a cut")
		network.Hold()
		deliver(fmt.Sprint("the events during the cut of process ", i)) // the other one takes its destinations over
		repeated := c.ledger.repeats()
		network.Pass()
		deliver("the events after a cut")
		if n := c.ledger.repeats() - repeated; n > 0 {
			t.Errorf("after its cut process %d sent %d messages that the other one had sent, want none", i, n)
		}
	}
	if c.ledger.gaps+c.ledger.others > 0 {
		t.Errorf("%d messages came after a gap and %d with another id, want none", c.ledger.gaps, c.ledger.others)
	}
	n, _ := c.ledger.total(0)
	t.Logf("%d messages, and %d of them again", n, c.ledger.repeats())
}

// repeats returns the number of messages that came again with the id of the first.
func (l *ledger) repeats() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.repeated
}
