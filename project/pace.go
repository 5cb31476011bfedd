package project

import "time"

// pace remembers when the last messages of a run were due, oldest first, so that
// no more than a given number are due within any window (O8). A message is due
// when its run was woken, or as soon as the window allows; when somebody found time
// to send it does not matter. There is no least distance between two: a run with
// few events is never delayed.
type pace []time.Time

// due is when a message of a run that was woken at a time is due.
func (p pace) due(woken time.Time, window time.Duration, burst int) time.Time {
	if len(p) < burst {
		return woken
	}
	return later(woken, p[len(p)-burst].Add(window))
}

// allows is when a message that is due then may go: a tenth of the window before,
// unless another one is ahead of its time. A run that emits as often as it may is
// then not held up for ever by one event that came late, and one message more than
// the number goes within any window at most.
func (p pace) allows(due time.Time, window time.Duration) time.Time {
	if len(p) == 0 {
		return due
	}
	return later(due.Add(-window/10), p[len(p)-1])
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
