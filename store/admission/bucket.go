// Package admission is the arithmetic of admission and quotas: what follows from rows that
// a store has locked, its clock and the terms. Both adapters ask it, so that
// both decide alike; it does no I/O and has no state.
package admission

import "time"

// fill is the time in which an empty bucket becomes full.
const fill = time.Minute

// Take takes a token at now of a bucket of perMinute tokens that would be full at fullAt
// (zero or past: it is full). It returns when the bucket is full again, with 0; or
// fullAt as it was, and after what time there is a token. That is negative when there never
// is one (perMinute is 0); a negative perMinute is no bucket, and nothing is taken of it. Of
// a bucket that was full, perMinute tokens can be had at once, and never
// more than twice as many within a minute.
func Take(fullAt, now time.Time, perMinute int) (time.Time, time.Duration) {
	switch {
	case perMinute < 0:
		return fullAt, 0
	case perMinute == 0:
		return fullAt, -1
	}
	next := now
	if fullAt.After(now) {
		next = fullAt
	}
	next = next.Add((fill / time.Duration(perMinute)).Truncate(time.Microsecond))
	if wait := next.Sub(now.Add(fill)); wait > 0 {
		return fullAt, wait
	}
	return next, 0
}
