// Package epoch orders the epochs of a store and fences a process off from an older one.
//
// An epoch of PostgreSQL is "<number>.<timeline>", such as 1795953600.00000002: the number that an operator raised
// last, and the timeline of the log in hexadecimal. A standby adds "~", because its rows may be older than those that
// the primary shows in the same epoch. Epochs of SQLite are random and have no order.
package epoch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/dvt-engine/dvt/store"
)

// standbyMark ends the epoch that a standby reports.
const standbyMark = "~"

// IsOlder reports whether both epochs have an order and a is older than b. An epoch that a standby reports is as old as
// that of its primary.
func IsOlder(a, b string) bool {
	x, ok := parse(a)
	y, ordered := parse(b)
	if !ok || !ordered {
		return false
	}
	return x.number < y.number || x.number == y.number && x.timeline < y.timeline
}

type parsed struct{ number, timeline uint64 }

func parse(s string) (out parsed, ok bool) {
	number, timeline, ok := strings.Cut(strings.TrimSuffix(s, standbyMark), ".")
	if !ok {
		return out, false
	}
	var errs [2]error
	out.number, errs[0] = strconv.ParseUint(number, 10, 63)
	out.timeline, errs[1] = strconv.ParseUint(timeline, 16, 32)
	return out, errs[0] == nil && errs[1] == nil
}

// Fence remembers the newest epoch that a process has seen. The zero value has seen none. It is safe for concurrent
// use.
type Fence struct {
	mu     sync.Mutex
	newest string
}

// Admit reports whether a source of this epoch may be used, and remembers the epoch. It refuses an epoch that is older
// than one it has admitted: that source is the database of a site from which another one took over.
func (f *Fence) Admit(epoch string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if IsOlder(epoch, f.newest) {
		return false
	}
	f.newest = epoch
	return true
}

// Newest returns the newest epoch that was admitted, or "".
func (f *Fence) Newest() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest
}

// Guard refuses work that the engine has from a newer epoch than that of the store, because then another site took over
// from this one. It reads the epoch of the store only when the one that it knows is older than that of the work. It is
// safe for concurrent use.
type Guard struct {
	read func(context.Context) (string, error)

	mu  sync.Mutex
	own string
}

// NewGuard makes a Guard of the store whose epoch read returns.
func NewGuard(read func(context.Context) (string, error)) *Guard { return &Guard{read: read} }

// Check returns an error with store.ErrFenced and store.ErrUnavailable for work of a newer epoch, nil for other work,
// and the error of the read. Work of the epoch "" is from a version that does not say it.
func (g *Guard) Check(ctx context.Context, work string) error {
	g.mu.Lock()
	own := g.own
	g.mu.Unlock()
	if work == "" || own != "" && !IsOlder(own, work) {
		return nil
	}
	own, err := g.read(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.own = own
	g.mu.Unlock()
	if IsOlder(own, work) {
		return fmt.Errorf("%w: %w: the work is of epoch %s and the store of epoch %s, so another site took over: stop the "+
			"processes of this one", store.ErrUnavailable, store.ErrFenced, work, own)
	}
	return nil
}
