package control

import (
	"maps"
	"sync"
	"time"
)

// perMinuteLimiter counts what principals do, by key, within a minute from the first time.
// It remembers at most maxKeys.
type perMinuteLimiter struct {
	now   func() time.Time
	mu    sync.Mutex
	byKey map[string]minute
}

type minute struct {
	began  time.Time
	n      int // in this minute
	before int // in the minute before it, as far as it is remembered
}

const maxKeys = 16384

func newPerMinuteLimiter(now func() time.Time) *perMinuteLimiter {
	return &perMinuteLimiter{now: now, byKey: map[string]minute{}}
}

// add counts one more. False: there is no room to remember the key.
func (m *perMinuteLimiter) add(key string) (minute, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	w, known := m.byKey[key]
	if !known && len(m.byKey) >= maxKeys {
		maps.DeleteFunc(m.byKey, func(_ string, w minute) bool { return now.Sub(w.began) >= time.Minute })
		if len(m.byKey) >= maxKeys {
			return w, false
		}
	}
	if now.Sub(w.began) >= time.Minute {
		w = minute{began: now, before: w.n}
	}
	w.n++
	m.byKey[key] = w
	return w, true
}

// takeBack uncounts one of a key: what it was counted for did not happen.
func (m *perMinuteLimiter) takeBack(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, known := m.byKey[key]; known && w.n > 0 {
		w.n--
		m.byKey[key] = w
	}
}
