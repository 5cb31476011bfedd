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
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Anybody with access to Temporal can start an execution under the id of a run. Two seals identify the executions that
// dvt started. One is in the memo, which Describe and lists show. The other covers the input, and the workflow checks
// it. A copy of both under the same id and on the same queue is as good as the original: workers of this installation
// run it, with an input from dvt, and the log decides about its effects.

// memoSeal is the key of the seal in the memo of an execution. It is part of recorded histories.
const memoSeal = "dvt.seal"

// Purposes of seals; see ticket.Keys.Seal.
const (
	sealExecution = "execution" // of executionText, in the memo
	sealInput     = "input"     // of Input.text, in the input
)

// mostBackoff is the longest plausible time between the start of an execution and its first task. Temporal delays an
// execution that continues another one by about a second, and dvt never asks for a delay.
const mostBackoff = time.Minute

// executionText returns the text under the seal in the memo. It holds the fields of a start that decide which workers
// run the execution.
func executionText(workflowType, workflowID, queue string) string {
	return fmt.Sprintf("%q|%q|%q", workflowType, workflowID, queue)
}

// text returns the text under the seal of an Input, for the execution that it starts. Continued has its own seal.
func (in Input) text(workflowID, queue string) string {
	in.Continued, in.Seal, in.StartSeal = nil, "", ""
	b, err := json.Marshal(struct {
		WorkflowID, Queue string
		Input
	}{workflowID, queue, in})
	if err != nil {
		return "" // unreachable: strings and numbers always marshal
	}
	return string(b)
}

// withSeal returns a copy of in with the seal for the execution that it starts.
func (in Input) withSeal(keys ticket.Keys, workflowID, queue string) Input {
	in.StartSeal = keys.Seal(sealInput, in.text(workflowID, queue))
	return in
}

// memoOf returns the memo of an execution that dvt starts, or nil without keys.
func memoOf(keys ticket.Keys, workflowID, queue string) map[string]any {
	if keys.Empty() {
		return nil
	}
	return map[string]any{memoSeal: keys.Seal(sealExecution, executionText(workflowName, workflowID, queue))}
}

// foreignReason returns the reason, as a part of a sentence, why an execution counts as not started by dvt, or "". An
// engine without keys only reads and treats every execution as its own.
func (e *Engine) foreignReason(info *workflowpb.WorkflowExecutionInfo) string {
	if e.cfg.Tickets.Empty() {
		return ""
	}
	workflowType, id, queue := info.GetType().GetName(), info.GetExecution().GetWorkflowId(), info.GetTaskQueue()
	delay := info.GetExecutionTime().AsTime().Sub(info.GetStartTime().AsTime())
	switch {
	case workflowType != workflowName:
		return fmt.Sprintf("it is of the type %.80q", workflowType)
	case !e.cfg.Tickets.VerifySeal(sealIn(info.GetMemo(), e.cfg.Payloads.converter()), sealExecution,
		executionText(workflowType, id, queue)):
		return fmt.Sprintf("no server of this installation sealed its start on the queue %.80q", queue)
	case info.GetExecutionTime().IsValid() && delay > mostBackoff:
		return fmt.Sprintf("its first task is delayed by %s", plan.DurationWords(delay))
	}
	return ""
}

// sealIn returns the seal in a memo, or "".
func sealIn(memo *commonpb.Memo, c converter.DataConverter) (seal string) {
	p := memo.GetFields()[memoSeal]
	if p == nil || c.FromPayload(p, &seal) != nil {
		return ""
	}
	return seal
}

// runOf returns the tenant and the run of a workflow id, or false when WorkflowID did not make it. Ids hold no slash
// (contract T12).
func runOf(workflowID string) (run.Identity, bool) {
	var id run.Identity
	rest, ok := strings.CutPrefix(workflowID, "dvt/")
	if !ok {
		return id, false
	}
	id.TenantID, id.RunID, ok = strings.Cut(rest, "/")
	return id, ok && id.TenantID != "" && id.RunID != "" && !strings.Contains(id.RunID, "/")
}
