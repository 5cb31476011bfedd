import { useState } from "react";
import { receipts } from "../receipts/context";
import { newId } from "../api/newId";
import { ApproveDocument, CompleteStepDocument, type ManualOutcome } from "../api/gen/graphql";
import { toSignal } from "../api/model";
import { request } from "../api/request";
import { m } from "../messages";
import { ReasonDialog } from "../forms/ReasonDialog";
import form from "../styles/Form.module.css";
import { shortId } from "../format/format";
import type { Item } from "./items";
import { PlanChange } from "./PlanChange";

const OUTCOMES = ["SUCCEEDED", "FAILED", "CANCELLED"] as const satisfies readonly ManualOutcome[];

interface DecideProps {
  item: Item;
  yes: boolean;
  done: () => void;
  close: () => void;
}

/** Asks for the reason and sends the decision. One request id, so that sending it again has no second effect. */
export function Decide({ item, yes, done, close }: DecideProps) {
  const [requestId] = useState(() => `ui-${newId()}`);
  const [outcome, setOutcome] = useState<ManualOutcome>(yes ? "SUCCEEDED" : "FAILED");
  const { approval, task } = item;
  const act = async (reason: string): Promise<void> => {
    const words = reason === "" ? null : reason;
    if (approval) {
      await request(ApproveDocument, {
        input: {
          runId: item.runId,
          requestId,
          decision: yes ? "APPROVE" : "REJECT",
          reason: words,
          expectedRunSeq: approval.runSeq,
        },
      });
    } else if (task) {
      const { completeManualStep } = await request(CompleteStepDocument, {
        input: { runId: item.runId, stepId: task.stepId, token: task.token ?? "", outcome, notes: words },
      });
      receipts.receive(toSignal(completeManualStep.signal));
    }
    done();
  };
  const verb = approval ? m.inbox[yes ? "yes" : "no"].approval : m.inbox.outcome[outcome];
  return (
    <ReasonDialog
      title={m.inbox.named(approval ? verb : m.inbox.yes.task, item.stepId ?? `${item.name} ${shortId(item.runId)}`)}
      verb={verb}
      reason={approval && !yes ? "required" : "optional"}
      danger={approval ? !yes : outcome !== "SUCCEEDED"}
      act={act}
      onClose={close}
    >
      {approval && <p>{yes ? m.inbox.approveMeans : m.inbox.rejectMeans}</p>}
      {approval && <PlanChange runId={item.runId} />}
      {task?.instructions && <p>{task.instructions}</p>}
      {task && (
        <label className={form.field}>
          <span>{m.inbox.outcomeLabel}</span>
          <select
            value={outcome}
            onChange={(event) => {
              const next = OUTCOMES.find((known) => known === event.target.value);
              if (next) setOutcome(next);
            }}
          >
            {OUTCOMES.map((name) => (
              <option key={name} value={name}>
                {m.inbox.outcome[name]}
              </option>
            ))}
          </select>
        </label>
      )}
    </ReasonDialog>
  );
}
