package main

import (
	"os"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
)

func TestCountActions_LocalActivitiesOfOneWorkflowTaskAreOneAction(t *testing.T) {
	t.Parallel()
	marker := func(name string, task int64) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_MARKER_RECORDED,
			Attributes: &historypb.HistoryEvent_MarkerRecordedEventAttributes{
				MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{MarkerName: name,
					WorkflowTaskCompletedEventId: task},
			}}
	}
	tried := &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED,
		Attributes: &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{
			ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{Attempt: 3},
		}}
	for name, c := range map[string]struct {
		history []*historypb.HistoryEvent
		want    int
	}{
		"start of a workflow": {
			[]*historypb.HistoryEvent{{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED}}, 1},
		"three tries of an activity": {[]*historypb.HistoryEvent{tried}, 3},
		"two local activities of a task": {[]*historypb.HistoryEvent{marker("LocalActivity", 4),
			marker("LocalActivity", 4)}, 1},
		"local activities of two tasks": {[]*historypb.HistoryEvent{marker("LocalActivity", 4),
			marker("LocalActivity", 9)}, 2},
		"two other markers of a task": {[]*historypb.HistoryEvent{marker("Version", 4), marker("Version", 4)}, 2},
		"workflow tasks, which are not billed": {
			[]*historypb.HistoryEvent{{EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED}}, 0},
	} {
		if got := countActions(c.history); got != c.want {
			t.Errorf("%s: %d actions, want %d", name, got, c.want)
		}
	}
}

func TestCPUOfTree_CountsWhatThisProcessUsed(t *testing.T) {
	t.Parallel()
	before, err := cpuOfTree(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const work = 200 * time.Millisecond
	own, err := ownCPU()
	for end := own + work; err == nil && own < end; {
		own, err = ownCPU()
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := cpuOfTree(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := after - before; used < work-2*tick {
		t.Errorf("/proc reports %s of processor time, want at least %s", used, work-2*tick)
	}
}
