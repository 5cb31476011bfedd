package interp_test

import (
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine/interp"
)

// history is the engine's history of a machine. A workflow task begins with outside inputs (timers, wake-ups, ends of
// activities), and then carries out appends and reads. The history gets their answers when the task completes. A task
// that is lost with its worker is tried again: the log has its events, but the machine does not know them.
type history struct {
	lossy  bool // tasks can be lost; otherwise nothing is recorded
	task   int  // number of the current task
	local  bool // the current task has carried out an append or read
	losses int

	born   int    // inputs of earlier executions of the workflow
	carry  []byte // the state from which this execution continues; nil for the first
	kept   kept
	armers map[interp.Timer]int // the tasks that armed the timers
}

// kept is the state of the world when the last task completed.
type kept struct {
	inputs    int
	flights   []*flight
	cancelled []bool
	past      map[dispatch]bool
	timers    map[interp.Timer]time.Time
	fetch     []int64
	reading   bool
	sent      *interp.Append
	hook      *hook
	hookState hook
	undone    []string
	known     int // knownSeq
}

// loseTasks allows the engine of a world to lose workflow tasks.
func (w *world) loseTasks() {
	w.history.lossy, w.history.armers = true, map[interp.Timer]int{}
	w.completeTask()
}

// completeTask records the inputs and effects of the machine in the engine's history.
func (w *world) completeTask() {
	h := &w.history
	if !h.lossy {
		return
	}
	h.task++
	h.local = false
	h.kept = kept{
		inputs: len(w.inputs), flights: slices.Clone(w.flights), past: maps.Clone(w.past), timers: maps.Clone(w.timers),
		fetch: slices.Clone(w.fetch), reading: w.reading, sent: w.sent, hook: w.hook, undone: slices.Clone(w.undone),
		known: int(w.knownSeq),
	}
	for _, f := range w.flights {
		h.kept.cancelled = append(h.kept.cancelled, f.cancelled)
	}
	if w.hook != nil {
		h.kept.hookState = *w.hook
	}
}

// needTask completes the current task if an outside input depends on its effects.
func (w *world) needTask(task int) {
	if task == w.history.task {
		w.completeTask()
	}
}

// beginTask begins a task with an outside input.
func (w *world) beginTask() {
	if w.history.local {
		w.completeTask()
	}
}

func (w *world) beginInput(in interp.Input) {
	switch in.(type) {
	case interp.Init, interp.Fired, interp.Woken, interp.Pressure:
		w.beginTask()
	default:
		w.history.local = w.history.lossy
	}
}

// loseTask loses the current task. Its events stay in the log, and the next try gets the same outside inputs.
func (w *world) loseTask() {
	w.tb.Helper()
	h, k := &w.history, &w.history.kept
	h.losses++
	h.local = false
	again := slices.Clone(w.inputs[k.inputs:])
	w.inputs, w.effects = w.inputs[:k.inputs], w.effects[:k.inputs]
	w.m = w.newest()
	for _, in := range w.inputs[h.born:] {
		w.m.Step(in)
	}
	w.flights = slices.Clone(k.flights)
	for i, f := range w.flights {
		f.cancelled = k.cancelled[i]
	}
	w.past, w.timers, w.fetch = maps.Clone(k.past), maps.Clone(k.timers), slices.Clone(k.fetch)
	w.reading, w.tails = k.reading, nil
	w.pending, w.sent, w.answer = k.sent, k.sent, nil
	if w.hook = k.hook; w.hook != nil {
		w.hook.cancelled = k.hookState.cancelled
	}
	w.undone = slices.Clone(k.undone)
	w.forget(k.known)
	for _, in := range again {
		switch in := in.(type) {
		case interp.Init:
			in.At = w.now
			w.feed(in)
		case interp.Fired:
			in.At = w.now
			w.timers[in.Timer] = time.Time{}
			w.feed(in)
		case interp.Woken:
			in.At = w.now
			w.feed(in)
		case interp.Pressure:
			in.At = w.now
			w.feed(in)
		}
	}
}

// newest returns the machine of this execution of the workflow before its first input.
func (w *world) newest() *interp.Machine {
	w.tb.Helper()
	if w.history.carry == nil {
		return interp.New(w.sk, w.who)
	}
	return goOn(w.tb, w.history.carry, w.sk, w.who)
}
