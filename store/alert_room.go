package store

import (
	"sync"
	"time"
)

const (
	// MaxUncounted is how many alerts a process opens without another count. Other processes may do the same meanwhile, so
	// it also bounds by how much each of them can pass MaxOpenAlerts.
	MaxUncounted = 20

	roomLife = time.Minute
	maxRooms = 10_000 // tenants
)

// AlertRoom remembers how many alerts of a tenant a process may open before it must count the open ones again. A count
// costs the more the more alerts are open, so counting for each made ten thousand at once take minutes. A single process
// never passes MaxOpenAlerts; each further one may pass it by MaxUncounted. The zero value is ready. It is safe for concurrent use.
type AlertRoom struct {
	mu    sync.Mutex
	rooms map[string]alertRoom // by tenant
}

type alertRoom struct {
	left  int
	until time.Time
}

// Take reports whether an alert of the tenant may be opened without a count, and takes its place.
func (r *AlertRoom) Take(tenantID string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.rooms[tenantID]
	if room.left == 0 || !now.Before(room.until) {
		delete(r.rooms, tenantID)
		return false
	}
	room.left--
	r.rooms[tenantID] = room
	return true
}

// Counted records how many alerts of the tenant are open, with the one for which the caller counted.
func (r *AlertRoom) Counted(tenantID string, open int, now time.Time) {
	left := min(MaxOpenAlerts-open, MaxUncounted)
	if left <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms == nil || len(r.rooms) >= maxRooms {
		r.rooms = map[string]alertRoom{}
	}
	r.rooms[tenantID] = alertRoom{left: left, until: now.Add(roomLife)}
}
