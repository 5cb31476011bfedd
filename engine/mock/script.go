package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Script describes a simulation of one run.
type Script struct {
	// Steps has the behaviour of the executions of steps by stepId, in order. Further executions, and steps without an
	// entry, succeed at once. A key "stepId/2" is for logical attempt 2 and has precedence.
	Steps map[string][]Try `json:"steps"`
	// Compensations is the same for the hooks of steps.
	Compensations map[string][]Try `json:"compensations"`
	// Signals are sent during the run.
	Signals []Order `json:"signals"`
	// Expect is the expected final status; COMPLETED if empty. Simulate does not compare it; the caller does.
	Expect run.Status `json:"expect"`
}

// Try is the behaviour of one execution.
type Try struct {
	Takes     Duration        `json:"takes"`
	Fails     string          `json:"fails"` // an error code; empty means success
	Message   string          `json:"message"`
	Retryable *bool           `json:"retryable"` // default true
	Class     string          `json:"class"`     // of the retry policy
	Result    json.RawMessage `json:"result"`
	// IgnoresCancel lets it continue when it is asked to stop.
	IgnoresCancel bool `json:"ignoresCancel"`
}

// Order is a signal that is sent at a time after the start of the run, or as soon as the log has an event in the
// notation of the printed log, such as "StepFailed(load,1)".
type Order struct {
	At     Duration `json:"at"`
	After  string   `json:"after"` // At counts from this event if it is set
	Signal string   `json:"signal"`
	Step   string   `json:"step"`
	Force  bool     `json:"force"`
	// Outcome of a COMPLETE_MANUAL_STEP.
	Outcome run.ManualOutcome `json:"outcome"`
}

// Duration is encoded as a Go duration such as "90s".
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s is not a duration, such as \"90s\"", b)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration, such as \"90s\"", s)
	}
	*d = Duration(v)
	return nil
}

// ErrScript is wrapped by the errors of ParseScript and Script.Check.
var ErrScript = errors.New("the script does not fit the plan")

// ParseScript decodes a script from JSON. It rejects unknown fields. Errors wrap ErrScript.
func ParseScript(doc []byte) (Script, error) {
	var s Script
	dec := json.NewDecoder(strings.NewReader(string(doc)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, fmt.Errorf("%w: %w", ErrScript, err)
	}
	return s, nil
}

// Check returns one error that lists all mistakes of a script for a plan and wraps ErrScript, or nil.
func (s Script) Check(pl plan.Plan) error {
	known := map[string]bool{}
	for _, step := range pl.Steps {
		known[step.StepID] = true
	}
	var wrong []string
	for _, part := range []struct {
		name  string
		tries map[string][]Try
	}{{"steps", s.Steps}, {"compensations", s.Compensations}} {
		for key := range part.tries {
			if id, _, _ := strings.Cut(key, "/"); !known[id] {
				wrong = append(wrong, fmt.Sprintf("%s.%s: the plan has no such step", part.name, key))
			}
		}
	}
	sort.Strings(wrong)
	for i, o := range s.Signals {
		if !slices.Contains(scripted, run.SignalType(o.Signal)) {
			wrong = append(wrong, fmt.Sprintf("signals[%d].signal: %q is not one of %v", i, o.Signal, scripted))
		}
		if o.Step != "" && !known[o.Step] {
			wrong = append(wrong, fmt.Sprintf("signals[%d].step: the plan has no step %q", i, o.Step))
		}
	}
	if s.Expect != "" && !s.Expect.Terminal() {
		wrong = append(wrong, fmt.Sprintf("expect: a run does not end as %q", s.Expect))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w:\n  %s", ErrScript, strings.Join(wrong, "\n  "))
	}
	return nil
}

// scripted lists the signals that the engine acts on.
var scripted = []run.SignalType{
	run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.Cancel, run.EmergencyStop, run.CompleteManual,
}

// player plays a Script as Steps.
type player struct {
	script Script
	used   map[string]int // number of executions played, by "s" or "c" and the key of the script
}

// Attempt implements Steps.
func (p *player) Attempt(x Execution) Attempt {
	tries, prefix := p.script.Steps, "s"
	if x.Compensation {
		tries, prefix = p.script.Compensations, "c"
	}
	key := fmt.Sprintf("%s/%d", x.StepID, x.LogicalAttempt)
	if _, ok := tries[key]; !ok {
		key = x.StepID
	}
	list := tries[key]
	n := p.used[prefix+key]
	if n >= len(list) {
		return Attempt{}
	}
	p.used[prefix+key]++
	t := list[n]
	a := Attempt{Takes: time.Duration(t.Takes), Result: t.Result, IgnoresCancel: t.IgnoresCancel}
	if t.Fails != "" {
		a.Fails = &Failure{Code: t.Fails, Message: t.Message, NotRetryable: t.Retryable != nil && !*t.Retryable,
			Class: t.Class}
	}
	return a
}
