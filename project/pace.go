package project

import "time"

// pace remembers when the last messages of a run went out, oldest first, so that
// no more than a given number does within any window (O8). There is no least
// distance between two: a run with few events is never delayed.
type pace []time.Time

// due is when the next message may go out, not after now when it may at once.
func (p pace) due(window time.Duration, burst int) time.Time {
	if len(p) < burst {
		return time.Time{}
	}
	return p[len(p)-burst].Add(window)
}

// sent notes a message and forgets what no window reaches any more.
func (p pace) sent(now time.Time, window time.Duration, burst int) pace {
	p = append(p, now)
	for len(p) > burst || !p[0].Add(window).After(now) {
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
