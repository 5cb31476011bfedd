package projector

import "time"

// pace remembers when the last messages of a run were due, oldest first, so that
// no more than a given number are due within any window (O8). There is no least
// distance between two: a run with few events is never delayed.
//
// A message is due when its run was woken, or as soon as the window allows. When
// somebody found time to send it does not matter. What came late in a run that goes
// on counts as if it had come a tenth of a window after the one before, but not more
// than two tenths ago; and in a run whose last messages came evenly one may go a
// tenth before it is due. So a run that emits evenly, as often as it may, is not held
// up for ever by one event that came late; then three messages more than the number
// go within a window at most. A run that has much to say at once gets the number and
// not one more.
type pace []time.Time

// due is when a message of a run that was woken at a time is due.
func (p pace) due(woken time.Time, window time.Duration, burst int) time.Time {
	due := woken
	if n := len(p); n > 0 && p[n-1].Add(window).After(woken) {
		due = earlier(woken, later(p[n-1].Add(window/10), woken.Add(-window/5)))
	}
	if n := len(p); n >= burst {
		due = later(due, p[n-burst].Add(window))
	}
	return due
}

// allows is when a message that is due then may go: a tenth of the window before in
// a run that emits evenly, unless another one is ahead of its time.
func (p pace) allows(due time.Time, window time.Duration, burst int) time.Time {
	n := len(p)
	if n == 0 || !p.even(window/time.Duration(2*burst)) {
		return due
	}
	return later(due.Add(-window/10), p[len(p)-1])
}

// even reports whether at most two of the messages followed another one faster:
// as many as a hiccup brings together.
func (p pace) even(least time.Duration) bool {
	fast := 0
	for i := 1; i < len(p); i++ {
		if p[i].Sub(p[i-1]) < least {
			fast++
		}
	}
	return fast <= 2
}

// sent notes a message that was due and forgets what no window reaches any more.
func (p pace) sent(due time.Time, window time.Duration, burst int) pace {
	p = append(p, due)
	for len(p) > burst || !p[0].Add(window).After(due) {
		p = p[1:]
	}
	return p
}

// over is when the last message is out of every window.
func (p pace) over(window time.Duration) time.Time {
	if len(p) == 0 {
		return time.Time{}
	}
	return p[len(p)-1].Add(window)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
