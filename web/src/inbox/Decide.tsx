import { RunDialog } from "../actions/RunDialog";
import type { Answer } from "../actions/send";
import { shortId } from "../format/format";
import { m } from "../messages";
import type { Item } from "./items";

interface DecideProps {
  item: Item;
  yes: boolean;
  done: (answer: Answer) => void;
  close: () => void;
}

/** The dialog of an item, with the decision of the button that opened it. */
export function Decide({ item, yes, done, close }: DecideProps) {
  const { kind, runId, stepId, name, task } = item;
  return (
    <RunDialog
      action={task ? "COMPLETE_MANUAL_STEP" : "APPROVE"}
      runId={runId}
      stepId={task ? stepId : null}
      logicalAttemptId={task?.logicalAttemptId ?? null}
      title={m.inbox.named(m.inbox[yes ? "yes" : "no"][kind], stepId ?? `${name} ${shortId(runId)}`)}
      draft={{ decision: yes ? "APPROVE" : "REJECT", outcome: yes ? "SUCCEEDED" : "FAILED" }}
      done={done}
      close={close}
    />
  );
}
