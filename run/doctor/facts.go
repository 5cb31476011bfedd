package doctor

import (
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Facts are what is known about a run and its surroundings at one time. Unknown parts are left out, and no cause rests
// on them.
type Facts struct {
	Now   time.Time
	State run.State
	// Retried has the failed steps with an accepted retry that has not begun.
	Retried  map[string]bool
	Queue    *Queue    // of a run that waits to be started
	Approval *Approval // of a run that waits for approval
	// Tasks has by stepId who may complete the steps that wait for a person. An absent step is not known; an empty list
	// means nobody.
	Tasks   map[string][]string
	Signals []Signal // accepted and not yet applied, the oldest first
	// ControlQueue is the task queue of the run's workflow.
	ControlQueue string
	Workers      map[string]Workers // by task queue
	// Drains has by task queue the drains of all its workers; a queue with a worker that may begin steps is absent.
	Drains    map[string][]Drain
	Engine    *Engine
	Held      []Held // what holds up a run that has been given to the engine, the first one first
	Parts     []Part // parts of the installation that do not work
	LastGreen *LastGreen
}

// Queue is the place of a run in the queue of starts.
type Queue struct {
	Since   time.Time
	Expires time.Time // when the run fails; zero for never
	// Held: a freeze or the mode keeps all starts back. Limited: a quota or a limit of active runs does. Neither: the
	// start is due, and a server should be making it.
	Held, Limited bool
	Position      int // 1 is next
	Reason        string
}

// Approval counts the approvals of a run.
type Approval struct {
	Given, Required int
	Since, Expires  time.Time
	WhoCould        []string // those who may still approve
	More            bool     // there may be others
}

// Held is a reason why an open run does not continue. Its sentences are those of Run.waits, so that the page of a run
// and its diagnosis say the same.
type Held struct {
	Code         Code      // CodePartDown, CodeJournal, CodeWaitsForQuota or CodePlanLoads
	Engine       bool      // with CodePartDown: the engine is the part; otherwise the store
	Since, Until time.Time // zero if unknown
	Message      string
	Help         string   // who can help
	Steps        []string // those that are named
	StepCount    int
}

// Signal is an accepted signal that has had no effect yet.
type Signal struct {
	Type       run.SignalType
	StepID     string
	AcceptedAt time.Time
	Seq        run.Seq
	Delivered  *time.Time
}

// Workers describes the pollers of a task queue.
type Workers struct {
	Count    int
	LastPoll time.Time // zero: none is known
	Watched  time.Time // since when the queue was looked at
	Waiting  int64     // tasks that no worker has taken
}

// Drain asks a worker to begin no further steps. All but Since is empty when its reader may not know it.
type Drain struct {
	Worker, By, Reason string
	Since              time.Time
}

// Engine is what the workflow engine says about the run.
type Engine struct {
	Known  bool // it has an execution of the run
	Closed bool // the newest execution has ended
	Status string
	// Pending are the activities of steps that it has scheduled.
	Pending []Activity
}

// Activity is an attempt of a step as the engine sees it.
type Activity struct {
	StepID        string
	Attempt       int // of the engine, from 1
	Started       bool
	LastHeartbeat *time.Time
}

// Part is a part of the installation that does not work.
type Part struct {
	Name, Message string
	// Engine: runs do not continue without it. Store: nothing is recorded without it. A part that is neither delays only
	// views.
	Engine, Store bool
	Slow          bool // it works, but so slowly that starts wait
}

// LastGreen is the newest earlier run of the same plan that completed.
type LastGreen struct {
	RunID, PlanVersion string
	// Changed counts the parts of the plan in which this run differs from it: steps, and members outside of the steps. It
	// is 0 when the plans have the same content, whatever their bytes, and when one of them is not known.
	Changed int
	// Changes names the first of them, such as "load (inputs.argv)".
	Changes []string
	// Usual is how long a step takes, by stepId, from earlier runs.
	Usual map[string]time.Duration
}
