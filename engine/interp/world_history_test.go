package interp_test

import (
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine/interp"
)

// history is the engine's history of a machine. A workflow task starts with inputs from outside (timers, wake-ups, ends
// of activities), and then performs appends and reads. The history gets their answers when the task completes. If a
// task is lost with its worker, the engine tries it again: the log has the events of the lost try, but the machine does
// not know them.
type history struct {
	lossy  bool // tasks can be lost; otherwise nothing is recorded
	task   int  // number of the current task
	local  bool // the current task has performed an append or a read
	losses int  // number of lost tasks

	born       int    // number of inputs of earlier executions of the workflow
	carry      []byte // the state from which this execution continues; nil for the first
	checkpoint checkpoint
	armers     map[interp.Timer]int // the tasks that armed the timers
}

// checkpoint is the state of the world when the last task completed.
type checkpoint struct {
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
	h.checkpoint = checkpoint{
		inputs: len(w.inputs), flights: slices.Clone(w.flights), past: maps.Clone(w.past), timers: maps.Clone(w.timers),
		fetch: slices.Clone(w.fetch), reading: w.reading, sent: w.sent, hook: w.hook, undone: slices.Clone(w.undone),
		known: int(w.knownSeq),
	}
	for _, f := range w.flights {
		h.checkpoint.cancelled = append(h.checkpoint.cancelled, f.cancelled)
	}
	if w.hook != nil {
		h.checkpoint.hookState = *w.hook
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
	h, k := &w.history, &w.history.checkpoint
	h.losses++
	h.local = false
	again := slices.Clone(w.inputs[k.inputs:])
	w.inputs, w.effects = w.inputs[:k.inputs], w.effects[:k.inputs]
	w.m = w.newMachine()
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
	w.resetKnown(k.known)
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

// newMachine returns the machine of this execution of the workflow before its first input.
func (w *world) newMachine() *interp.Machine {
	w.tb.Helper()
	if w.history.carry == nil {
		return interp.New(w.sk, w.cfg)
	}
	return resumeMachine(w.tb, w.history.carry, w.sk, w.cfg)
}
