package trace_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/run/trace"
)

const logs = 3000

// sources are the two kinds of logs for which every property must hold.
var sources = map[string]func(seed uint64) []run.Event{"valid": runtest.RandomLog, "hostile": runtest.Hostile}

func hasEnd(evs []run.Event) bool {
	return slices.ContainsFunc(evs, func(e run.Event) bool { return e.Type.EndsRun() })
}

// contract: R400
func TestTrace_OfALogIsOneTree(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[trace.Kind]int{}
			for seed := range logs {
				evs := source(uint64(seed))
				spans := trace.Of(runtest.ID, created(seed), evs)
				for _, s := range spans {
					kinds[s.Kind]++
				}
				if err := checkTree(spans, hasEnd(evs)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			t.Log(kinds)
			if len(kinds) < 13 {
				t.Errorf("the logs gave %d kinds of spans, want at least 13: %v", len(kinds), kinds)
			}
		})
	}
}

// created is the time of the request, which only some logs have.
func created(seed int) time.Time {
	if seed%2 == 0 {
		return time.Time{}
	}
	return runtest.Epoch
}

// checkTree checks the form of a trace: unique ids, one root that comes last, no orphan, and parents that enclose their
// children. A log without an end has no root.
func checkTree(spans []trace.Span, ended bool) error {
	byID := map[trace.SpanID]trace.Span{}
	roots := 0
	for _, s := range spans {
		if _, twice := byID[s.ID]; twice {
			return fmt.Errorf("two spans have the id of %s %s", s.Kind, s.Name)
		}
		byID[s.ID] = s
		if s.IsRoot() {
			roots++
		}
		if s.End.Before(s.Start) {
			return fmt.Errorf("%s ends before it starts", s.Name)
		}
		if s.Trace != trace.IDOf(runtest.ID.RunID) {
			return fmt.Errorf("%s is in the trace %s", s.Name, s.Trace)
		}
	}
	switch {
	case !ended && roots > 0:
		return fmt.Errorf("an open run has %d roots", roots)
	case !ended:
		return nil
	case roots != 1 || !spans[len(spans)-1].IsRoot():
		return fmt.Errorf("%d roots, want one, and as the last span", roots)
	}
	for _, s := range spans {
		if s.IsRoot() {
			continue
		}
		parent, found := byID[s.Parent]
		if !found {
			return fmt.Errorf("%s has no parent", s.Name)
		}
		if s.Start.Before(parent.Start) || s.End.After(parent.End) {
			return fmt.Errorf("%s (%s to %s) is not within %s (%s to %s)", s.Name, s.Start, s.End, parent.Name, parent.Start,
				parent.End)
		}
		for _, l := range s.Links {
			if _, known := byID[l.Span]; l.Trace == s.Trace && !known {
				return fmt.Errorf("%s has a link %q to no span", s.Name, l.Relation)
			}
		}
	}
	return nil
}

func TestTrace_IsTheSameHoweverTheLogIsDivided(t *testing.T) {
	t.Parallel()
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range logs {
				evs := source(uint64(seed))
				whole := trace.Of(runtest.ID, created(seed), evs)
				b := trace.New(runtest.ID, created(seed))
				var parts []trace.Span
				for i := range evs {
					parts = append(parts, b.Add(evs[max(0, i-2):i+1])...) // the feed may repeat events
					if len(parts) > 0 && !reflect.DeepEqual(whole[:len(parts)], parts) {
						t.Fatalf("seed %d: the spans of the first %d events (-of the whole log +got):\n%s", seed, i+1,
							cmp.Diff(whole[:len(parts)], parts))
					}
				}
				if len(parts) != len(whole) {
					t.Fatalf("seed %d: %d spans event by event, want %d", seed, len(parts), len(whole))
				}
			}
		})
	}
}

// Every logical attempt, pause and signal of a valid log has its span, and there are no others.
func TestTrace_EqualsTheLog(t *testing.T) {
	t.Parallel()
	for seed := range logs {
		evs := runtest.RandomLog(uint64(seed))
		if !hasEnd(evs) {
			continue
		}
		want, got := map[string]int{}, map[string]int{}
		for _, e := range evs {
			switch {
			case e.Type == run.StepStartedEvent:
				want["attempt"]++
			case e.Type == run.StepSkippedEvent:
				want["attempt"]++
			case e.Type == run.RunPaused:
				want["pause"]++
			case e.Type == run.SignalAccepted:
				want["signal"]++
			case e.Type == run.SignalRejected:
				want["refusal"]++
			case e.Type.EndsHook():
				want["hook"]++
			case e.Type == run.StepAwaitingManualCompletion:
				want["manual"]++
			}
			if e.Type.EndsRun() {
				break
			}
		}
		state := run.Project(runtest.ID, evs)
		for _, s := range state.Steps {
			if len(s.Attempts) > 0 {
				want["step"]++
			}
		}
		statuses := map[string]string{}
		for _, s := range trace.Of(runtest.ID, time.Time{}, evs) {
			if _, counted := want[string(s.Kind)]; counted || s.Kind == "signal" || s.Kind == "attempt" {
				got[string(s.Kind)]++
			}
			if s.Kind == "step" {
				statuses[s.Name] = value(s, "status")
			}
		}
		for kind, n := range want {
			if n != got[kind] {
				t.Fatalf("seed %d: %d spans of kind %s, want %d", seed, got[kind], kind, n)
			}
		}
		for _, s := range state.Steps {
			if status := statuses["step "+s.StepID]; s.Status.Terminal() && status != string(s.Status) {
				t.Fatalf("seed %d: the span of step %s says %q, the log %s", seed, s.StepID, status, s.Status)
			}
		}
	}
}

// A trace leaves the installation, so it has no text that people or programs wrote: reasons, notes, names, results,
// messages and addresses.
func TestTrace_HasNoTextOfPeopleOrPrograms(t *testing.T) {
	t.Parallel()
	secret := "hunter2 said so"
	for seed := range logs / 3 {
		evs := runtest.RandomLog(uint64(seed))
		for i := range evs {
			if evs[i].Type == run.StepFailedEvent {
				evs[i].Payload = runtest.JSON(runtest.M{"errorCode": secret, "errorMessage": secret, "retryable": true})
			}
		}
		shown := fmt.Sprintf("%+v", trace.Of(runtest.ID, time.Time{}, evs))
		for _, text := range []string{secret, "hunter2", "ola", "pat", "maintenance", "s3://", "file:///", "exit status",
			"lost the run", "wrong data", "rows"} {
			if strings.Contains(shown, text) {
				t.Fatalf("seed %d: the trace contains %q:\n%s", seed, text, shown)
			}
		}
	}
}

func value(s trace.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Text
		}
	}
	return ""
}
