import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { receipts } from "../actions/context";
import { newId } from "../actions/intent";
import { explain } from "../actions/refusal";
import { ApprovalsDocument, type ApprovalsQuery, ApproveDocument, CompleteStepDocument, type Decision, type ManualOutcome, type TaskFieldsFragment, TasksDocument } from "../api/gen/graphql";
import { instant, toSignal } from "../api/model";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { m } from "../messages";
import { Ask } from "../ui/Ask";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import css from "../ui/Form.module.css";
import { shortId } from "../ui/format";
import { List, PageHead } from "../ui/List";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";

type Waiting = ApprovalsQuery["approvals"]["edges"][number]["node"];
const EVERY_MS = 5_000;
const OUTCOMES = ["SUCCEEDED", "FAILED", "CANCELLED"] as const satisfies readonly ManualOutcome[];

/** What waits for a person: runs to approve and steps to complete. */
export function InboxPage() {
  useDocumentStatus(m.inbox.title);
  const approvals = useConnection(ApprovalsDocument, {}, (result) => result.approvals, { every: EVERY_MS });
  const tasks = useConnection(TasksDocument, {}, (result) => result.manualTasks, { every: EVERY_MS });
  const [deciding, setDeciding] = useState<{ run: Waiting; decision: Decision; requestId: string } | null>(null);
  const [completing, setCompleting] = useState<{ task: TaskFieldsFragment; outcome: ManualOutcome } | null>(null);

  const runs: Column<Waiting>[] = [
    {
      head: m.inbox.run,
      main: true,
      cell: (run) => (
        <Link to="/runs/$runId" params={{ runId: run.runId }}>
          {run.plan.planId}@{run.plan.planVersion} <code>{shortId(run.runId)}</code>
        </Link>
      ),
    },
    { head: m.inbox.where, cell: (run) => `${run.projectId} / ${run.environmentId}` },
    { head: m.inbox.by, cell: (run) => run.triggeredBy },
    { head: m.inbox.since, cell: (run) => <Time at={instant(run.createdAt)} /> },
    {
      head: m.inbox.decide,
      cell: (run) => {
        const may = run.actions.find((entry) => entry.action === "APPROVE");
        const refusal = may ? explain(may) : m.denied.noAnswer;
        const open = (decision: Decision) => (): void => setDeciding({ run, decision, requestId: `ui-${newId()}` });
        return (
          <span className={css.buttons}>
            <Button kind="primary" refusal={refusal} label={m.inbox.named(m.action.APPROVE, shortId(run.runId))} onClick={open("APPROVE")}>
              {m.action.APPROVE}…
            </Button>
            <Button refusal={refusal} label={m.inbox.named(m.inbox.reject, shortId(run.runId))} onClick={open("REJECT")}>
              {m.inbox.reject}…
            </Button>
          </span>
        );
      },
    },
  ];
  const steps: Column<TaskFieldsFragment>[] = [
    {
      head: m.inbox.step,
      main: true,
      cell: (task) => (
        <Link to="/runs/$runId" params={{ runId: task.runId }} search={{ step: task.stepId }}>
          {task.stepId} <code>{shortId(task.runId)}</code>
        </Link>
      ),
    },
    { head: m.inbox.what, text: true, cell: (task) => task.instructions },
    { head: m.inbox.where, wide: true, cell: (task) => `${task.projectId} / ${task.environmentId}` },
    { head: m.inbox.since, cell: (task) => <Time at={instant(task.since)} /> },
    { head: m.inbox.until, cell: (task) => task.deadline && <Time at={instant(task.deadline)} format="full" /> },
    {
      head: m.inbox.decide,
      cell: (task) => (
        <Button kind="primary" refusal={explain(task.action)} label={m.inbox.named(m.action.COMPLETE_MANUAL_STEP, task.stepId)} onClick={() => setCompleting({ task, outcome: "SUCCEEDED" })}>
          {m.action.COMPLETE_MANUAL_STEP}…
        </Button>
      ),
    },
  ];

  const decide = async (reason: string): Promise<void> => {
    if (!deciding) return;
    const { run, decision, requestId } = deciding;
    await request(ApproveDocument, { input: { runId: run.runId, requestId, decision, reason: reason === "" ? null : reason, expectedRunSeq: run.runSeq } });
    approvals.refresh();
  };
  const complete = async (notes: string): Promise<void> => {
    if (!completing) return;
    const { task, outcome } = completing;
    const { completeManualStep } = await request(CompleteStepDocument, {
      input: { runId: task.runId, stepId: task.stepId, token: task.token ?? "", outcome, notes: notes === "" ? null : notes },
    });
    receipts.receive(toSignal(completeManualStep.signal));
    tasks.refresh();
  };

  return (
    <>
      <PageHead
        title={m.inbox.title}
        asOf={Math.min(approvals.asOf, tasks.asOf)}
        refresh={() => {
          approvals.refresh();
          tasks.refresh();
        }}
      />
      <section className={css.section} aria-label={m.inbox.approvals}>
        <h2>{m.inbox.approvals}</h2>
        <List label={m.inbox.approvals} pages={approvals} columns={runs} rowKey={(run) => run.runId} empty={<p>{m.inbox.noApprovals}</p>} />
      </section>
      <section className={css.section} aria-label={m.inbox.tasks}>
        <h2>{m.inbox.tasks}</h2>
        <List label={m.inbox.tasks} pages={tasks} columns={steps} rowKey={(task) => `${task.runId}/${task.stepId}`} empty={<p>{m.inbox.noTasks}</p>} />
      </section>
      {deciding && (
        <Ask
          title={m.inbox.named(deciding.decision === "APPROVE" ? m.action.APPROVE : m.inbox.reject, shortId(deciding.run.runId))}
          verb={deciding.decision === "APPROVE" ? m.action.APPROVE : m.inbox.reject}
          reason={deciding.decision === "APPROVE" ? "optional" : "required"}
          danger={deciding.decision === "REJECT"}
          act={decide}
          onClose={() => setDeciding(null)}
        >
          <p>{deciding.decision === "APPROVE" ? m.inbox.approveMeans : m.inbox.rejectMeans}</p>
        </Ask>
      )}
      {completing && (
        <Ask title={m.inbox.named(m.action.COMPLETE_MANUAL_STEP, completing.task.stepId)} verb={m.inbox.outcome[completing.outcome]} reason="optional" danger={completing.outcome !== "SUCCEEDED"} act={complete} onClose={() => setCompleting(null)}>
          {completing.task.instructions && <p>{completing.task.instructions}</p>}
          <label className={css.field}>
            <span>{m.inbox.outcomeLabel}</span>
            <select
              value={completing.outcome}
              onChange={(event) => {
                const outcome = OUTCOMES.find((known) => known === event.target.value);
                if (outcome) setCompleting({ ...completing, outcome });
              }}
            >
              {OUTCOMES.map((outcome) => (
                <option key={outcome} value={outcome}>
                  {m.inbox.outcome[outcome]}
                </option>
              ))}
            </select>
          </label>
        </Ask>
      )}
    </>
  );
}
