package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Rule names a promise of a store.
type Rule string

// The rules.
const (
	// Keys: the seqs of a log are 1 to n without gaps. Each key occurs once and is computed from the fields of its event
	// (contract T03, T05, T28, A05).
	Keys Rule = "keys"
	// Terminals: an attempt, its hook and a run end once. Only signal decisions follow the end of a run (contract T10,
	// T80, G19).
	Terminals Rule = "terminals"
	// Acknowledged: the log has every acknowledged event at its seq with the content that was sent. The result of a
	// duplicate names the event with its key. The log has no event that no caller sent (contract T09, A03, T15).
	Acknowledged Rule = "acknowledged"
	// Refused: a refusal names the event that justifies it. A duplicate is never refused (contract T228).
	Refused Rule = "refused"
	// Together: the events of one transaction have adjacent seqs, or none of them is in the log. An accepted signal has a
	// receipt (contract T190, T196).
	Together Rule = "together"
	// Order: seqs are in the order of commits, so they never contradict real time. PersistedAt never decreases (contract
	// T27, T18).
	Order Rule = "order"
	// Prefix: a page is a part of the log without gaps and with the content of the log (contract T27).
	Prefix Rule = "prefix"
	// Fresh: a read returns every event that was acknowledged before it was called (contract T29).
	Fresh Rule = "fresh"
	// Monotonic: the seqs that one actor sees never decrease within an epoch, and the epoch does not change without a
	// restore (contract T24, T194).
	Monotonic Rule = "monotonic"
	// Folded: a state, a delta, a header and the counts of a head are the fold of the log up to their seq (contract T193,
	// T212, T32).
	Folded Rule = "folded"
	// Feeding: a consumer that has caught up has seen every change that was committed before its pass began. At the end it
	// has seen every run at its head (contract T186).
	Feeding Rule = "feed"
	// Gating: no attempt starts through a closed gate, none is parked at an open gate, and a head has the gate of its seq
	// (contract T185, T217).
	Gating Rule = "gate"
	// Beginning: the verdict of a StartAttempt agrees with the log. RUN has one StepStarted, DONE the terminal event of
	// the attempt, RUN_TERMINAL the end of the run, and each was true when it was returned (contract T185, T52).
	Beginning Rule = "begin"
	// Explained: every error is one that the interface of the store documents.
	Explained Rule = "explained"
)

// Violation is one violation of a rule.
type Violation struct {
	Rule   Rule
	RunID  string
	Detail string
}

func (v Violation) String() string { return fmt.Sprintf("[%s] %s: %s", v.Rule, v.RunID, v.Detail) }

// maxViolations is the number of violations of one rule that are reported, because the first usually explains the
// others.
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

// Check checks the history against every rule. It returns at most ten violations of each rule, sorted by rule, within a
// rule by run id. The rules about logs apply only to runs for which a Log was recorded.
func (h *History) Check() []Violation {
	v := &verdict{count: map[Rule]int{}}
	for _, id := range slices.Sorted(maps.Keys(h.byRun)) {
		b := h.byRun[id]
		v.run = id
		if b.log == nil {
			b.checkLost(v)
			continue
		}
		for _, rule := range []func(*book, *verdict){
			(*book).checkKeys, (*book).checkTerminals, (*book).checkAcknowledged, (*book).checkRefused, (*book).checkTogether,
			(*book).checkReceipts,
			(*book).checkOrder, (*book).checkReads, (*book).checkFolded, (*book).checkGates, (*book).checkStarts,
		} {
			rule(b, v)
		}
	}
	v.run = "(all runs)"
	h.checkExplained(v)
	h.checkMonotonic(v)
	h.checkFeeds(v)
	slices.SortStableFunc(v.found, func(x, y Violation) int { return cmp.Compare(x.Rule, y.Rule) })
	return v.found
}

// checkExplained reports errors that the interface of the store does not document.
func (h *History) checkExplained(v *verdict) {
	for _, c := range h.calls {
		if c.Strange {
			v.add(Explained, "%s failed with %q", c, c.Error)
		}
	}
}

// checkLost reports a run with acknowledged writes that could not be read at the end.
func (b *book) checkLost(v *verdict) {
	if b.made != never || len(b.acked) > 0 {
		v.add(Acknowledged, "writes were acknowledged, but the run is not in the store")
	}
}
