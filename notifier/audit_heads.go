package notifier

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Bounds of a look at the ends of the chains.
const (
	headPages = 4 // pages of all tenants, in rotation
	maxBusy   = store.MaxPage
	busyFor   = time.Minute // a tenant whose chain grew so lately is looked at each time
)

// auditHeads knows the ends of the audit's chains for all destinations of a process. A look costs the same whatever the
// number of tenants is: it asks for the chains that grew lately, and for the next pages of all others. A chain that was
// quiet is therefore seen after at most one rotation, which takes one look for each 4,000 tenants. It is safe for
// concurrent use.
type auditHeads struct {
	store AuditReader
	life  time.Duration // how long a look is shared
	now   func() time.Time

	mu     sync.Mutex
	looked time.Time
	after  string // of the rotation
	whole  bool   // all tenants were read once
	ends   map[string]int64
	grew   map[string]time.Time // the tenants that are busy
	// order has the tenants in the order in which their chains grew; rev numbers them from 1. Older entries of a tenant
	// remain until they are too many.
	order []headChange
	rev   int64
}

type headChange struct {
	rev    int64
	tenant string
}

func newAuditHeads(s AuditReader, life time.Duration, now func() time.Time) *auditHeads {
	return &auditHeads{store: s, life: life, now: now, ends: map[string]int64{}, grew: map[string]time.Time{}}
}

// since returns the ends of the chains that grew after rev, by their tenants, and the rev from which to ask again. 0
// asks for all.
func (h *auditHeads) since(ctx context.Context, rev int64) (ends map[string]int64, next int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.now(); h.looked.IsZero() || now.Sub(h.looked) >= h.life {
		if err := h.look(ctx, now); err != nil {
			return nil, rev, err
		}
		h.looked = now
	}
	from := sort.Search(len(h.order), func(i int) bool { return h.order[i].rev > rev })
	ends = make(map[string]int64, len(h.order)-from)
	for _, c := range h.order[from:] {
		ends[c.tenant] = h.ends[c.tenant]
	}
	return ends, h.rev, nil
}

// look reads the ends of the busy chains and of the next pages.
func (h *auditHeads) look(ctx context.Context, now time.Time) error {
	for tenant, at := range h.grew {
		if now.Sub(at) > busyFor {
			delete(h.grew, tenant)
		}
	}
	if len(h.grew) > 0 {
		busy := make([]string, 0, min(len(h.grew), maxBusy))
		for tenant := range h.grew {
			if len(busy) < maxBusy {
				busy = append(busy, tenant)
			}
		}
		ends, err := h.store.AuditEnds(ctx, busy)
		if err != nil {
			return err
		}
		for tenant, no := range ends {
			h.note(tenant, no, now)
		}
	}
	for page := 0; page < headPages || !h.whole; page++ {
		heads, err := h.store.AuditHeads(ctx, h.after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, head := range heads {
			h.note(head.TenantID, head.No, now)
			h.after = head.TenantID
		}
		if len(heads) < store.MaxPage {
			h.after, h.whole = "", true
			break
		}
	}
	h.compact()
	return nil
}

// note remembers the end of a chain. A store that was restored from a backup may have a shorter one.
func (h *auditHeads) note(tenant string, no int64, now time.Time) {
	before, known := h.ends[tenant]
	if no == before {
		return
	}
	h.ends[tenant] = no
	h.rev++
	h.order = append(h.order, headChange{h.rev, tenant})
	if known || h.whole { // at the start every chain is new
		h.grew[tenant] = now
	}
}

// compact drops older entries of tenants once they are most of the order.
func (h *auditHeads) compact() {
	if len(h.order) <= 2*len(h.ends)+maxBusy {
		return
	}
	seen := map[string]bool{}
	kept := make([]headChange, 0, len(h.ends))
	for _, c := range slices.Backward(h.order) {
		if !seen[c.tenant] {
			seen[c.tenant] = true
			kept = append(kept, c)
		}
	}
	slices.Reverse(kept)
	h.order = kept
}
