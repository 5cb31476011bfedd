package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Summary counts the calls and events of a history, so that a reader can see how much a check covered.
type Summary struct {
	Runs, Ended, Events                 int
	Writes, Inserted, Duplicates        int
	Refused                             map[run.Code]int
	Begun                               map[store.StartVerdict]int
	Lost, LostButWritten, Signals, Torn int
	Reads, FeedPages, FeedRows, Saves   int
}

// Summarize returns the counts of the history.
func (h *History) Summarize() Summary {
	s := Summary{Refused: map[run.Code]int{}, Begun: map[store.StartVerdict]int{}, Torn: h.torn}
	for _, b := range h.byRun {
		s.run(b)
	}
	for _, c := range h.calls {
		switch c.Kind {
		case KindChanged:
			s.FeedPages++
			s.FeedRows += len(c.Folds)
		case KindSave:
			s.Saves++
		case KindEvents, KindBefore, KindLoad, KindSince, KindHeads:
			s.Reads++
		}
	}
	return s
}

func (s *Summary) run(b *book) {
	s.Runs++
	s.Events += len(b.events)
	if b.end > 0 {
		s.Ended++
	}
	if b.log != nil {
		s.Signals += len(b.log.Receipts)
	}
	for _, w := range b.writes {
		s.Writes++
		if w.answer.Effect == Unknown {
			s.Lost++
			if len(w.drafts) > 0 && b.onlyOrigin(w) {
				s.LostButWritten++
			}
		}
		if w.answer.Verdict != "" {
			s.Begun[w.answer.Verdict]++
		}
		for _, o := range w.answer.Outcomes {
			switch {
			case o.Refused != "":
				s.Refused[o.Refused]++
			case o.Deduplicated:
				s.Duplicates++
			default:
				s.Inserted++
			}
		}
	}
}

// onlyOrigin reports whether the log has an event of w that only writes without a result can have written.
func (b *book) onlyOrigin(w *write) bool {
	for _, d := range w.drafts {
		seq := b.bySubject[ofDraft(d)]
		if seq > 0 && b.inserter[seq] == nil && w.begin == nil {
			return true
		}
	}
	return false
}

// Add adds the counts of another history.
func (s *Summary) Add(o Summary) {
	s.Runs, s.Ended, s.Events = s.Runs+o.Runs, s.Ended+o.Ended, s.Events+o.Events
	s.Writes, s.Inserted, s.Duplicates = s.Writes+o.Writes, s.Inserted+o.Inserted, s.Duplicates+o.Duplicates
	s.Lost, s.LostButWritten = s.Lost+o.Lost, s.LostButWritten+o.LostButWritten
	s.Signals, s.Torn = s.Signals+o.Signals, s.Torn+o.Torn
	s.Reads, s.FeedPages, s.FeedRows, s.Saves = s.Reads+o.Reads, s.FeedPages+o.FeedPages, s.FeedRows+o.FeedRows, s.Saves+
		o.Saves
	s.Refused, s.Begun = sum(s.Refused, o.Refused), sum(s.Begun, o.Begun)
}

func sum[K comparable](a, b map[K]int) map[K]int {
	out := maps.Clone(a)
	if out == nil {
		out = map[K]int{}
	}
	for k, n := range b {
		out[k] += n
	}
	return out
}

func (s Summary) String() string {
	return fmt.Sprintf("%d runs (%d ended), %d events; %d writes: %d inserted, %d duplicates, refused %s, starts %s; "+
		"%d writes without a result (at least %d of them were committed), %d truncated lines; %d receipts; %d reads, %d "+
		"saves, %d feed pages with %d rows",
		s.Runs, s.Ended, s.Events, s.Writes, s.Inserted, s.Duplicates, list(s.Refused), list(s.Begun),
		s.Lost, s.LostButWritten, s.Torn, s.Signals, s.Reads, s.Saves, s.FeedPages, s.FeedRows)
}

func list[K ~string](m map[K]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return "(" + strings.Join(out, ", ") + ")"
}
