package temporal

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/run"
)

// Whoever reaches Temporal can start an execution under the id of a run. Two seals tell the executions that dvt
// started: one in the memo, which a Describe and a list show, and one over the input, which the workflow checks
// itself. A copy of both under the same id and on the same queue is as good as the original: workers of this
// installation run it, with an input that dvt wrote, and the log decides what it may do.

// memoSeal is the key of the seal in the memo of an execution. It is part of recorded histories.
const memoSeal = "dvt.seal"

// Purposes of seals; see ticket.Keys.Seal.
const (
	sealExecution = "execution" // of executionText, in the memo
	sealInput     = "input"     // of Input.text, in the input
)

// mostBackoff is the longest time between the start of an execution and its first task that is not somebody's doing:
// Temporal delays an execution that continues another one by a second or so. dvt never asks for a delay.
const mostBackoff = time.Minute

// executionText is what the seal in the memo covers: the parts of an execution that whoever starts it chooses and that
// decide who runs it.
func executionText(workflowType, workflowID, queue string) string {
	return fmt.Sprintf("%q|%q|%q", workflowType, workflowID, queue)
}

// text is what the seal of an Input covers, for the execution that it starts. Continued has a seal of its own.
func (in Input) text(workflowID, queue string) string {
	in.Continued, in.Seal, in.StartSeal = nil, "", ""
	b, err := json.Marshal(struct {
		WorkflowID, Queue string
		Input
	}{workflowID, queue, in})
	if err != nil {
		return "" // strings and numbers always marshal
	}
	return string(b)
}

// sealed is in with the seal for the execution that it starts.
func (in Input) sealed(keys ticket.Keys, workflowID, queue string) Input {
	in.StartSeal = keys.Seal(sealInput, in.text(workflowID, queue))
	return in
}

// memoOf is the memo of an execution that dvt starts; nil without keys.
func memoOf(keys ticket.Keys, workflowID, queue string) map[string]any {
	if keys.Empty() {
		return nil
	}
	return map[string]any{memoSeal: keys.Seal(sealExecution, executionText(workflowName, workflowID, queue))}
}

// foreign says why dvt did not start an execution, a part of a sentence; empty when it did. An engine without keys,
// which only reads, takes every execution for its own.
func (e *Engine) foreign(info *workflowpb.WorkflowExecutionInfo) string {
	if e.cfg.Tickets.Empty() {
		return ""
	}
	workflowType, id, queue := info.GetType().GetName(), info.GetExecution().GetWorkflowId(), info.GetTaskQueue()
	delay := info.GetExecutionTime().AsTime().Sub(info.GetStartTime().AsTime())
	switch {
	case workflowType != workflowName:
		return fmt.Sprintf("it is of the type %.80q", workflowType)
	case !e.cfg.Tickets.Sealed(sealIn(info.GetMemo(), e.cfg.Payloads.converter()), sealExecution, executionText(workflowType, id, queue)):
		return fmt.Sprintf("no server of this installation sealed its start on the queue %.80q", queue)
	case info.GetExecutionTime().IsValid() && delay > mostBackoff:
		return fmt.Sprintf("its first task is delayed by %s", delay.Round(time.Second))
	}
	return ""
}

// sealIn reads the seal in a memo; empty when there is none.
func sealIn(memo *commonpb.Memo, c converter.DataConverter) (seal string) {
	p := memo.GetFields()[memoSeal]
	if p == nil || c.FromPayload(p, &seal) != nil {
		return ""
	}
	return seal
}

// runOf is the tenant and the run that a workflow id names; false when it is not one of WorkflowID. Ids hold no
// slash (T12).
func runOf(workflowID string) (run.Identity, bool) {
	var id run.Identity
	rest, ok := strings.CutPrefix(workflowID, "dvt/")
	if !ok {
		return id, false
	}
	id.TenantID, id.RunID, ok = strings.Cut(rest, "/")
	return id, ok && id.TenantID != "" && id.RunID != "" && !strings.Contains(id.RunID, "/")
}
