package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Rule names what a store promises.
type Rule string

// Rules, each with the contract that it is from.
const (
	// Keys: a log is 1..n without holes, each key is there once and is the one that
	// the event's own fields give (T03, T05, T28, A05).
	Keys Rule = "keys"
	// Terminals: an attempt, its hook and a run end once, and nothing but decisions about
	// signals follows the end of a run (T10, T80, G19).
	Terminals Rule = "terminals"
	// Acknowledged: what was acknowledged is there, at its seq, as it was sent; a
	// duplicate points at the event of its key; nothing is there that nobody sent (T09, A03, T15).
	Acknowledged Rule = "acknowledged"
	// Refused: a refusal names what justifies it, and was not given to a duplicate (T228).
	Refused Rule = "refused"
	// Together: what one transaction writes is there whole, side by side, or not at
	// all; an accepted signal and its receipt are one (T190, T196).
	Together Rule = "together"
	// Order: the order of seq is that of commits, and so never against real time;
	// PersistedAt does not fall (T27, T18).
	Order Rule = "order"
	// Prefix: what a reader sees of a log is a piece of it without holes, as it is (T27).
	Prefix Rule = "prefix"
	// Fresh: a read sees what was acknowledged before it began (T29).
	Fresh Rule = "fresh"
	// Monotonic: what an actor sees never goes back within an epoch, and an epoch
	// does not change by itself (T24, T194).
	Monotonic Rule = "monotonic"
	// Folded: a state, a delta, a header and the counts of a head are the fold of the
	// log up to their seq (T193, T212, T32).
	Folded Rule = "folded"
	// Feeding: a consumer that has caught up was told of every change committed
	// before it began to; at the end it knows every run at its head (T186).
	Feeding Rule = "feed"
	// Gating: nothing begins through a closed gate and nothing is parked at an open
	// one; a head tells the gate as it is (T185, T217).
	Gating Rule = "gate"
	// Beginning: the answer to a StartAttempt fits the log: RUN has one StepStarted, DONE a
	// terminal, RUN_TERMINAL the end; each only while it is true (T185, T52).
	Beginning Rule = "begin"
	// Explained: an error is one that the port speaks of.
	Explained Rule = "explained"
)

// Violation is one place where a history breaks a rule.
type Violation struct {
	Rule   Rule
	RunID  string
	Detail string
}

func (v Violation) String() string { return fmt.Sprintf("[%s] %s: %s", v.Rule, v.RunID, v.Detail) }

// maxViolations of one rule are told; the first one mostly explains the rest.
const maxViolations = 10

// verdict collects violations.
type verdict struct {
	found []Violation
	count map[Rule]int
	run   string
}

func (v *verdict) add(r Rule, format string, args ...any) {
	if v.count[r]++; v.count[r] <= maxViolations {
		v.found = append(v.found, Violation{r, v.run, fmt.Sprintf(format, args...)})
	}
}

// Check holds the history against every rule and returns what breaks them, at
// most ten places for each rule, the runs in the order of their ids. Rules
// about the log of a run judge only runs that a Log was recorded of.
func (h *History) Check() []Violation {
	v := &verdict{count: map[Rule]int{}}
	for _, id := range slices.Sorted(maps.Keys(h.byRun)) {
		b := h.byRun[id]
		v.run = id
		if b.log == nil {
			b.lost(v)
			continue
		}
		for _, rule := range []func(*book, *verdict){
			(*book).keys, (*book).terminals, (*book).acknowledged, (*book).refused, (*book).together, (*book).receipts,
			(*book).order, (*book).read, (*book).folded, (*book).gated, (*book).beginning,
		} {
			rule(b, v)
		}
	}
	v.run = "(all runs)"
	h.explained(v)
	h.monotonic(v)
	h.feeds(v)
	slices.SortStableFunc(v.found, func(x, y Violation) int { return cmp.Compare(x.Rule, y.Rule) })
	return v.found
}

// explained looks for errors that tell a caller nothing.
func (h *History) explained(v *verdict) {
	for _, c := range h.calls {
		if c.Strange {
			v.add(Explained, "%s failed with %q", c, c.Error)
		}
	}
}

// lost says when a run that was acknowledged could not be read at the end.
func (b *book) lost(v *verdict) {
	if b.made != never || len(b.acked) > 0 {
		v.add(Acknowledged, "writes were acknowledged, but the run is not in the store")
	}
}
