package temporal

import (
	"context"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
)

var _ engine.Pollers = (*Engine)(nil)

// describeTime bounds one call of Pollers.
const describeTime = 2 * time.Second

// Pollers implements engine.Pollers. A worker of a queue serves the task queues of all its workloads, so the queue has
// a worker as long as one of them is polled. Temporal remembers pollers for five minutes. An idle worker polls once a
// minute.
func (e *Engine) Pollers(ctx context.Context, queue string) (out engine.QueuePollers, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	kinds := []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_ACTIVITY}
	if strings.HasPrefix(queue, plan.ControlPrefix) {
		kinds = append(kinds, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	}
	for _, w := range plan.WorkloadsOf(queue) {
		for _, kind := range kinds {
			if err := e.addPollers(ctx, w.TaskQueue(queue), kind, &out); err != nil {
				return engine.QueuePollers{}, err
			}
		}
	}
	return out, nil
}

// addPollers adds the pollers and the backlog of one task queue to out.
func (e *Engine) addPollers(
	ctx context.Context, taskQueue string, kind enumspb.TaskQueueType, out *engine.QueuePollers,
) error {
	d, err := e.client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: e.namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: taskQueue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: kind, ReportStats: true,
	})
	if err != nil {
		return translate(err)
	}
	workers := map[string]bool{}
	for _, p := range d.GetPollers() {
		workers[p.GetIdentity()] = true
		if at := p.GetLastAccessTime().AsTime(); at.After(out.LastSeen) {
			out.LastSeen = at
		}
	}
	out.Count = max(out.Count, len(workers))
	out.Waiting += d.GetStats().GetApproximateBacklogCount()
	return nil
}
