package projector

import "time"

// pace holds the due times of the last messages of a run, oldest first. It limits how many are due within any window
// (contract O8). There is no minimum distance between two messages, so that a run with few events is never delayed.
//
// A message is due when its run was woken, or as soon as the window allows. The time at which a worker sends it does
// not count. Two rules keep one late event from delaying all later ones of a run that emits evenly at the maximum
// rate:
// - In an active run a late message counts as if it came a tenth of a window after the previous one, but at most two
// tenths ago.
// - If the last messages came evenly, a message may be sent a tenth of a window before it is due. With these rules at
// most three messages more than the limit are sent within a window. A run with many events at once gets exactly the
// limit.
type pace []time.Time

// due returns when a message of a run that was woken at the given time is due.
func (p pace) due(woken time.Time, window time.Duration, burst int) time.Time {
	due := woken
	if n := len(p); n > 0 && p[n-1].Add(window).After(woken) {
		due = earliest(woken, latest(p[n-1].Add(window/10), woken.Add(-window/5)))
	}
	if n := len(p); n >= burst {
		due = latest(due, p[n-burst].Add(window))
	}
	return due
}

// allows returns when a message may be sent: a tenth of the window before it is due in a run that emits evenly,
// unless the previous message was early, too.
func (p pace) allows(due time.Time, window time.Duration, burst int) time.Time {
	n := len(p)
	if n == 0 || !p.isEven(window/time.Duration(2*burst)) {
		return due
	}
	return latest(due.Add(-window/10), p[len(p)-1])
}

// isEven reports whether at most two messages followed another one faster than least, as happens after one pause of
// the workers.
func (p pace) isEven(least time.Duration) bool {
	fast := 0
	for i := 1; i < len(p); i++ {
		if p[i].Sub(p[i-1]) < least {
			fast++
		}
	}
	return fast <= 2
}

// add records the due time of a sent message and removes those outside every window.
func (p pace) add(due time.Time, window time.Duration, burst int) pace {
	p = append(p, due)
	for len(p) > burst || !p[0].Add(window).After(due) {
		p = p[1:]
	}
	return p
}

// expiry returns when the last message is outside every window.
func (p pace) expiry(window time.Duration) time.Time {
	if len(p) == 0 {
		return time.Time{}
	}
	return p[len(p)-1].Add(window)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
