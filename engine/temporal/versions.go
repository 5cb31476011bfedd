package temporal

import "go.temporal.io/sdk/workflow"

// Version is one state of what workflows do: of the driver, and of the interpreter
// that it drives. Histories of every version are under testdata, by name, and all
// of them replay on this code (E-03). Whoever changes what a workflow does with the
// same history adds a version, guards the change with it and records histories.
type Version struct {
	Name   string
	Since  string // the release that brought it
	Change string
	number workflow.Version
}

// changeID is what the executions of workflows note their version under.
const changeID = "dvt.run"

// Numbers of versions, in the order in which they came.
const (
	versionFirst    = workflow.DefaultVersion
	versionRotation = workflow.Version(1)
	versionPause    = workflow.Version(2)
	versionQuota    = versionPause // they came with one release
	versionLatest   = versionPause
)

// Versions are all that workflows in flight may have, oldest first. An execution
// keeps the one that it began with; the next of its chain begins with the latest.
func Versions() []Version {
	return []Version{
		{Name: "v1", number: versionFirst, Since: "before 0.1.0", Change: "one execution for a run's whole life; it notes no version"},
		{Name: "v2", number: versionRotation, Since: "0.1.0", Change: "a run rotates, by the number of steps and when its history has grown; one activity reads the skeleton and appends RunStarted"},
		{Name: "v3", number: versionPause, Since: "0.2.0", Change: "a pause that is in the log before the workflow hears of it is taken over, and what must not follow it is appended apart; a heavy step without a token comes back and waits by a timer, before its activity waited"},
	}
}

// versionOf reads the version that this execution began with.
func versionOf(ctx workflow.Context) workflow.Version {
	return workflow.GetVersion(ctx, changeID, versionFirst, versionLatest)
}
