package control

import (
	"maps"
	"sync"
	"time"
)

// PerMinuteLimiter counts what principals do, by key. A minute starts with the first count of a key. It remembers at
// most maxKeys keys. It is safe for concurrent use.
type PerMinuteLimiter struct {
	now   func() time.Time
	mu    sync.Mutex
	byKey map[string]minute
}

type minute struct {
	Began  time.Time
	N      int // in this minute
	Before int // in the minute before; 0 when it was forgotten
}

const maxKeys = 16384

// NewPerMinuteLimiter returns a limiter without counts.
func NewPerMinuteLimiter(now func() time.Time) *PerMinuteLimiter {
	return &PerMinuteLimiter{now: now, byKey: map[string]minute{}}
}

// Add counts one event of key and returns the minute. It returns false when there is no room to remember the key.
func (m *PerMinuteLimiter) Add(key string) (minute, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	w, known := m.byKey[key]
	if !known && len(m.byKey) >= maxKeys {
		maps.DeleteFunc(m.byKey, func(_ string, w minute) bool { return now.Sub(w.Began) >= time.Minute })
		if len(m.byKey) >= maxKeys {
			return w, false
		}
	}
	if now.Sub(w.Began) >= time.Minute {
		w = minute{Began: now, Before: w.N}
	}
	w.N++
	m.byKey[key] = w
	return w, true
}

// undo undoes one Add of a key, for an event that did not happen after all.
func (m *PerMinuteLimiter) undo(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, known := m.byKey[key]; known && w.N > 0 {
		w.N--
		m.byKey[key] = w
	}
}
