package duty

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// maxEndTypes bounds the types of steps that StepEnds counts; there are fewer.
const maxEndTypes = 50

// minutesOfEnds is the length of the history of StepEnds.
const minutesOfEnds = 24 * 60

// StepEnds counts the attempts that ended in this process, by type of step and minute, for a day. It asks no store:
// each server sees the ends that its workers report to it, which is a fair sample of them. It is safe for concurrent
// use.
type StepEnds struct {
	now func() time.Time

	mu     sync.Mutex
	byType map[string]*[minutesOfEnds]minuteEnds
}

// minuteEnds are the ends of one minute, which says whether an entry of the ring is current.
type minuteEnds struct {
	minute int64
	ends
}

// NewStepEnds makes StepEnds.
func NewStepEnds(now func() time.Time) *StepEnds {
	return &StepEnds{now: now, byType: map[string]*[minutesOfEnds]minuteEnds{}}
}

// Note counts the end of one attempt.
func (s *StepEnds) Note(stepType string, failed bool) {
	minute := s.now().Unix() / 60
	s.mu.Lock()
	defer s.mu.Unlock()
	ring := s.byType[stepType]
	if ring == nil {
		if len(s.byType) == maxEndTypes {
			return
		}
		ring = &[minutesOfEnds]minuteEnds{}
		s.byType[stepType] = ring
	}
	at := &ring[minute%minutesOfEnds]
	if at.minute != minute {
		*at = minuteEnds{minute: minute}
	}
	at.all++
	if failed {
		at.failed++
	}
}

// types returns the types that were counted, in order.
func (s *StepEnds) types() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.byType))
}

// count returns the ends of a type within the last window, and those of the day before it.
func (s *StepEnds) count(stepType string, window time.Duration) (recent, before ends) {
	now := s.now().Unix() / 60
	from := now - int64(window/time.Minute)
	s.mu.Lock()
	defer s.mu.Unlock()
	ring := s.byType[stepType]
	if ring == nil {
		return recent, before
	}
	for _, m := range ring {
		switch {
		case m.minute > from && m.minute <= now:
			recent.all, recent.failed = recent.all+m.all, recent.failed+m.failed
		case m.minute > now-minutesOfEnds && m.minute <= from:
			before.all, before.failed = before.all+m.all, before.failed+m.failed
		}
	}
	return recent, before
}
