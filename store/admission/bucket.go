// Package admission is the arithmetic of admission and quotas: it decides from the rows that a store has locked, the
// store's clock and the terms. All adapters use it, so that they decide alike. It does no I/O and keeps no state,
// except that a Crowd counts the runs of one transaction.
package admission

import "time"

// fillTime is the time in which an empty bucket becomes full.
const fillTime = time.Minute

// Take takes a token at now from a bucket of perMinute tokens that is full at fullAt (zero or past: it is full now). If
// there is a token it returns the new fullAt and 0. If not, it returns fullAt unchanged and the time until there is
// one, which is negative when there will never be one (perMinute is 0). A negative perMinute means that there is no
// bucket: Take returns fullAt unchanged and 0.
//
// The bucket stores only one time: it is full at fullAt, and each token moves fullAt by the time in which one token
// comes. A full bucket gives perMinute tokens at once, so at most twice perMinute within a minute.
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
	next = next.Add((fillTime / time.Duration(perMinute)).Truncate(time.Microsecond))
	if wait := next.Sub(now.Add(fillTime)); wait > 0 {
		return fullAt, wait
	}
	return next, 0
}
