package notifier_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/store"
)

// crowd adds tenants with a chain of one record to a store, and counts the questions about the audit.
type crowd struct {
	notifier.Store
	tenants              []string // ascending, after those of the store
	heads, ends, records atomic.Int64
}

func newCrowd(s notifier.Store, n int) *crowd {
	c := &crowd{Store: s}
	for i := range n {
		c.tenants = append(c.tenants, fmt.Sprintf("quiet-%05d", i))
	}
	return c
}

func (c *crowd) AuditHeads(ctx context.Context, after string, limit int) ([]store.AuditHead, error) {
	c.heads.Add(1)
	out, err := c.Store.AuditHeads(ctx, after, limit)
	for _, tenant := range c.tenants {
		if tenant > after {
			out = append(out, store.AuditHead{TenantID: tenant, No: 1})
		}
	}
	return out[:min(len(out), limit)], err
}

func (c *crowd) AuditEnds(ctx context.Context, tenants []string) (map[string]int64, error) {
	c.ends.Add(1)
	return c.Store.AuditEnds(ctx, tenants)
}

func (c *crowd) AuditLinks(ctx context.Context, f store.AuditFilter) ([]store.AuditLink, error) {
	if f.TenantID != "" {
		c.records.Add(1)
	}
	if strings.HasPrefix(f.TenantID, "quiet-") {
		return nil, nil
	}
	return c.Store.AuditLinks(ctx, f)
}

// What a look costs depends on the chains that grew, not on the number of tenants, nor on that of destinations.
func TestAudit_ALookAsksOnlyForChainsThatGrew(t *testing.T) {
	t.Parallel()
	const tenants, siems = 5_000, 4
	var siem []destination.Config
	for i := range siems {
		siem = append(siem, destination.Config{Name: fmt.Sprint("siem-", i), Kind: destination.Webhook, Route: auditRoute})
	}
	f := newFixture(t, siem...)
	f.timing.Idle = 20 * time.Millisecond
	c := newCrowd(f.store, tenants)
	f.act("acme", 0, 3)
	f.start(c, "one")
	arrived := func(n int) func() bool {
		return func() bool {
			return !slices.ContainsFunc(siem, func(d destination.Config) bool {
				return len(docsOf(t, f.receivers[d.Name].messages(), "acme")) < n
			})
		}
	}
	f.waitFor("the first records", arrived(3))
	f.waitFor("the chains of all tenants", func() bool { return c.records.Load() >= siems*tenants })
	time.Sleep(5 * f.timing.Idle)

	heads, ends, records, began := c.heads.Load(), c.ends.Load(), c.records.Load(), time.Now()
	const more = 10
	for i := range more {
		f.act("acme", 3+i, 1)
		time.Sleep(2 * f.timing.Idle)
	}
	f.waitFor("the records of a busy tenant", arrived(3+more))
	looks := int64(time.Since(began)/(f.timing.Idle/2)) + 2
	if n := c.heads.Load() - heads; n > 4*looks {
		t.Errorf("%d pages of heads were read in %d looks, want at most 4 in each, whatever the number of tenants is", n,
			looks)
	}
	if n := c.ends.Load() - ends; n == 0 || n > looks {
		t.Errorf("the busy chains were asked for %d times in %d looks, want at most one question in each", n, looks)
	}
	// A record may be linked while its chain is read, so that it is read once more.
	if n := c.records.Load() - records; n < siems || n > 2*siems*more {
		t.Errorf("chains were read %d times for %d records and %d destinations, want at most two times for each", n, more,
			siems)
	}
}

// A chain that was quiet, or that is new, is seen after one rotation.
func TestAudit_AQuietChainIsSeenAfterARotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, destination.Config{Name: "siem", Kind: destination.Webhook, Route: auditRoute})
	c := newCrowd(f.store, 2_000)
	f.start(c, "one")
	f.waitFor("the chains of all tenants", func() bool { return c.records.Load() >= 2_000 })
	f.act("zoe", 0, 2)
	f.waitFor("the records of a new tenant", func() bool {
		return len(docsOf(t, f.receivers["siem"].messages(), "zoe")) == 2
	})
}
