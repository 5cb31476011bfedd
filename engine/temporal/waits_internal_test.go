package temporal

import (
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The clock of the machine is an hour behind or ahead of Temporal's. Only a call that has really failed for a while is
// what a run waits for.
func TestWaits_AWrongClockOfTheMachineChangesNothing(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"behind": time.Hour, "ahead": -time.Hour} { // of Temporal's clock
		now := func() time.Time { return time.Now().Add(ahead) }
		e := New(nil, "default", Config{Now: now})
		for age, want := range map[time.Duration]bool{time.Second: false, 10 * time.Second: true} {
			got := e.pendingWaits(&workflowservice.DescribeWorkflowExecutionResponse{
				PendingActivities: []*workflowpb.PendingActivityInfo{{ActivityType: &commonpb.ActivityType{Name: activityAppend},
					ScheduledTime: timestamppb.New(now().Add(-age))}}})
			if got.StoreSince.IsZero() == want {
				t.Errorf("the machine's clock is %s: a call of %s ago is shown as a wait since %v, want a wait: %t", name, age,
					got.StoreSince, want)
			}
		}
	}
}
