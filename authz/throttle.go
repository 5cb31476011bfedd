package authz

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Throttle slows callers that guess tokens. An address may fail 10 times, and once more every 6 s. After that its
// tokens are not checked for 1 s, then for 2, 4 and 8 s. A token that was valid within the last hour is always checked,
// so that callers behind the same proxy cannot lock each other out. It remembers the last 16,384 addresses (the /64 of
// an IPv6 address) and as many tokens, by their SHA-256. It is safe for concurrent use; a nil Throttle slows nobody.
type Throttle struct {
	now func() time.Time

	mu      sync.Mutex
	buckets *lru.Cache[string, *bucket]
	good    *lru.Cache[[sha256.Size]byte, time.Time]
}

const (
	failures    = 10              // free failures of an address
	failureSpan = 6 * time.Second // time after which one more is free
	maxPenalty  = 8 * time.Second
	goodFor     = time.Hour
	maxTracked  = 16384
)

type bucket struct {
	left    float64 // failures that are free
	at      time.Time
	penalty time.Duration
	until   time.Time // tokens are not checked before
}

// NewThrottle makes a Throttle.
func NewThrottle(now func() time.Time) *Throttle {
	buckets, err1 := lru.New[string, *bucket](maxTracked)
	good, err2 := lru.New[[sha256.Size]byte, time.Time](maxTracked)
	if err1 != nil || err2 != nil {
		panic("authz: a cache of a fixed size") // lru.New only fails for a size below 1
	}
	return &Throttle{now: now, buckets: buckets, good: good}
}

// Wait returns how long the caller must wait before it checks a token from the address. After 0 it may check the token
// now and must call Done.
func (t *Throttle) Wait(address, token string) time.Duration {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if at, ok := t.good.Get(sha256.Sum256([]byte(token))); ok && now.Sub(at) < goodFor {
		return 0
	}
	b, ok := t.buckets.Get(Network(address))
	if !ok || !now.Before(b.until) {
		return 0
	}
	return b.until.Sub(now)
}

// RecordResult records whether a token from the address was good.
func (t *Throttle) RecordResult(address, token string, good bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	hash, now := sha256.Sum256([]byte(token)), t.now()
	if good {
		t.good.Add(hash, now)
		return
	}
	t.good.Remove(hash)
	key := Network(address)
	b, ok := t.buckets.Get(key)
	if !ok {
		b = &bucket{left: failures, at: now}
		t.buckets.Add(key, b)
	}
	if b.left += now.Sub(b.at).Seconds() / failureSpan.Seconds(); b.left >= failures {
		b.left, b.penalty = failures, 0
	}
	b.at = now
	if b.left >= 1 {
		b.left--
		return
	}
	b.penalty = min(max(2*b.penalty, time.Second), maxPenalty)
	b.until = now.Add(b.penalty)
}

// Network returns the key of an address for limits: the /64 of an IPv6 address, because one machine may own all of it.
func Network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}
