// The dialog of an item: the one of the run's page, with its preview, for a run that is opened while the dialog is.
import { useEffect, useMemo, useState } from "react";
import { ConfirmDialog } from "../actions/ConfirmDialog";
import { type RunActions, RunActionsContext } from "../actions/context";
import type { Kept } from "../actions/intents";
import type { Answer } from "../actions/send";
import { useAvailability } from "../actions/useAvailability";
import { intents } from "../actions/useSend";
import type { ApiError } from "../api/error";
import { shortId } from "../format/format";
import { m } from "../messages";
import { RunContext, useRunState } from "../runstate/context";
import { type OpenRun, openRun } from "../runstate/open";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import form from "../styles/Form.module.css";
import type { Item } from "./items";

interface DecideProps {
  item: Item;
  yes: boolean;
  done: (answer: Answer) => void;
  close: () => void;
}

export function Decide(props: DecideProps) {
  const { runId } = props.item;
  const [open, setOpen] = useState<OpenRun | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const run = openRun(runId, setError);
    setOpen(run);
    return run.close;
  }, [runId]);
  return open && !error ? (
    <RunContext value={open.store}>
      <Confirm {...props} />
    </RunContext>
  ) : (
    <Waiting {...props} error={error} />
  );
}

/** The form of the item, with the decision of the button that opened it. */
function formOf({ runId, stepId, task }: Item, yes: boolean): Kept {
  const kept = task
    ? intents.form("COMPLETE_MANUAL_STEP", runId, stepId, task.logicalAttemptId)
    : intents.form("APPROVE", runId, null, null);
  const decision = yes ? "APPROVE" : "REJECT";
  return { ...kept, draft: { ...kept.draft, decision, outcome: yes ? "SUCCEEDED" : "FAILED" } };
}

function Confirm({ item, yes, done, close }: DecideProps) {
  const known = useRunState((store) => store.header() !== null);
  const actions = useAvailability(item.runId, item.stepId);
  const [kept] = useState(() => formOf(item, yes));
  const acts: RunActions = useMemo(() => ({ actions, act: () => {}, menu: () => {} }), [actions]);
  if (!known) return <Waiting item={item} yes={yes} close={close} error={null} />;
  return (
    <RunActionsContext value={acts}>
      <ConfirmDialog
        kept={kept}
        onClose={close}
        onDone={(answer) => {
          done(answer);
          close();
        }}
      />
    </RunActionsContext>
  );
}

type WaitingProps = Pick<DecideProps, "item" | "yes" | "close"> & { error: ApiError | null };

/** Stands for the dialog until the run is known. */
function Waiting({ item, yes, close, error }: WaitingProps) {
  const subject = item.stepId ?? `${item.name} ${shortId(item.runId)}`;
  return (
    <Dialog title={m.inbox.named(m.inbox[yes ? "yes" : "no"][item.kind], subject)} onClose={close}>
      <p role={error ? "alert" : "status"}>
        {error ? error.message : m.confirm.asking} {error && <code>{error.code}</code>}
      </p>
      <div className={form.buttons}>
        <Button back onClick={close}>
          {m.confirm.back}
        </Button>
      </div>
    </Dialog>
  );
}
