package temporal

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/dvt-engine/dvt/engine"
)

// Executions knows which executions a process runs now, and whether it may begin more. It serves one call of Run at a
// time. It is safe for concurrent use. Create it with NewExecutions.
type Executions struct {
	mu      sync.Mutex
	running map[*engine.WorkerStep]bool
	idle    chan struct{} // non-nil while a goroutine waits; closed when nothing runs
	slots   int
	drained bool
	resumed chan struct{} // non-nil while drained; closed when more may begin
}

// NewExecutions returns Executions without any, that may begin some.
func NewExecutions() *Executions { return &Executions{running: map[*engine.WorkerStep]bool{}} }

// Drain sets whether the process must begin no further executions. Those that run go on. A drained worker does not poll
// its queues; a task that an open poll still brings goes back to the queue.
func (x *Executions) Drain(on bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case on == x.drained:
	case on:
		x.resumed = make(chan struct{})
	default:
		close(x.resumed)
	}
	x.drained = on
}

// Report adds to a report what the process runs now.
func (x *Executions) Report(r engine.WorkerReport) engine.WorkerReport {
	x.mu.Lock()
	defer x.mu.Unlock()
	r.Slots, r.InUse, r.Drained, r.Steps = x.slots, len(x.running), x.drained, nil
	for step := range x.running {
		r.Steps = append(r.Steps, *step)
	}
	slices.SortFunc(r.Steps, func(a, b engine.WorkerStep) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.StepID, b.StepID))
	})
	r.Steps = r.Steps[:min(len(r.Steps), engine.MaxWorkerSteps)]
	return r
}

func (x *Executions) isDrained() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.drained
}

// begin counts an execution until the returned function is called.
func (x *Executions) begin(step engine.WorkerStep) (end func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running[&step] = true
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.running, &step)
		if len(x.running) == 0 && x.idle != nil {
			close(x.idle)
			x.idle = nil
		}
	}
}

// serve sets the number of slots to 0, which addSlots then raises.
func (x *Executions) serve() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slots = 0
}

func (x *Executions) addSlots(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slots += n
}

// wait returns when no execution is running, or after most. No further execution may begin. Only one goroutine may
// wait.
func (x *Executions) wait(most time.Duration) {
	x.mu.Lock()
	if len(x.running) == 0 {
		x.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	x.idle = idle
	x.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// mayBegin waits while the process is drained. It returns the error of ctx when ctx ends first.
func (x *Executions) mayBegin(ctx context.Context) error {
	for {
		x.mu.Lock()
		drained, resumed := x.drained, x.resumed
		x.mu.Unlock()
		if !drained {
			return nil
		}
		select {
		case <-resumed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drainableSlots are slots that a drained process gives to no poll.
type drainableSlots struct {
	worker.SlotSupplier // of a fixed size
	executions          *Executions
}

// ReserveSlot implements worker.SlotSupplier.
func (s drainableSlots) ReserveSlot(ctx context.Context, info worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		if err := s.executions.mayBegin(ctx); err != nil {
			return nil, err
		}
		permit, err := s.SlotSupplier.ReserveSlot(ctx, info)
		if err != nil || !s.executions.isDrained() {
			return permit, err
		}
		s.ReleaseSlot(nil) // the process was drained while the poll waited for the slot
	}
}

// TryReserveSlot implements worker.SlotSupplier.
func (s drainableSlots) TryReserveSlot(info worker.SlotReservationInfo) *worker.SlotPermit {
	if s.executions.isDrained() {
		return nil
	}
	return s.SlotSupplier.TryReserveSlot(info)
}

// drainable gives the activities of a worker n slots that x can withhold. The other slots are the defaults of the
// SDK.
func (x *Executions) drainable(o *worker.Options, n int) {
	fixed, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{NumActivitySlots: n})
	if err != nil {
		panic(err) // only for a number that is not positive, and the SDK puts its default for those
	}
	o.MaxConcurrentActivityExecutionSize = 0 // the SDK takes sizes or a tuner
	o.Tuner, err = worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier:        fixed.GetWorkflowTaskSlotSupplier(),
		ActivitySlotSupplier:        drainableSlots{fixed.GetActivityTaskSlotSupplier(), x},
		LocalActivitySlotSupplier:   fixed.GetLocalActivitySlotSupplier(),
		NexusSlotSupplier:           fixed.GetNexusSlotSupplier(),
		SessionActivitySlotSupplier: fixed.GetSessionActivitySlotSupplier(),
	})
	if err != nil {
		panic(err) // parts have no errors
	}
}
