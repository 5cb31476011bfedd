package secret

import (
	"errors"
	"time"
)

// Outcome is how one read of a secret ended.
type Outcome string

// Outcomes of reads.
const (
	OutcomeCached      Outcome = "cached" // the value was remembered; the provider was not asked
	OutcomeRead        Outcome = "read"
	OutcomeNotFound    Outcome = "not_found"
	OutcomeDenied      Outcome = "denied"
	OutcomeThrottled   Outcome = "throttled"
	OutcomeUnavailable Outcome = "unavailable"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{OutcomeCached, OutcomeRead, OutcomeNotFound, OutcomeDenied, OutcomeThrottled, OutcomeUnavailable}
}

// Observer hears how reads and leases end. It gets names of providers, and neither keys nor values. Its methods are
// called from many goroutines and must not block.
type Observer interface {
	// Resolved is called for each read; took is 0 for a remembered value.
	Resolved(provider string, o Outcome, took time.Duration)
	// Revoked is called for each try to end a lease.
	Revoked(provider string, err error)
}

func outcomeOf(err error) Outcome {
	_, throttled := errors.AsType[*ThrottledError](err)
	switch {
	case err == nil:
		return OutcomeRead
	case throttled:
		return OutcomeThrottled
	case errors.Is(err, ErrDenied):
		return OutcomeDenied
	case errors.Is(err, ErrNotFound):
		return OutcomeNotFound
	}
	return OutcomeUnavailable
}

func (s *source) cached() {
	if s.of.Observer != nil {
		s.of.Observer.Resolved(s.Name, OutcomeCached, 0)
	}
}

func (s *source) asked(began time.Time, err error) {
	if s.of.Observer != nil {
		s.of.Observer.Resolved(s.Name, outcomeOf(err), time.Since(began))
	}
}

func (s *source) revoked(err error) {
	if s.of.Observer != nil {
		s.of.Observer.Revoked(s.Name, err)
	}
}
