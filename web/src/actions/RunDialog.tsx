// The dialog of an action on a run that the page does not show: the one of the run's page, with its preview, for a run
// that is opened while the dialog is.
import { useEffect, useMemo, useState } from "react";
import type { ApiError } from "../api/error";
import { m } from "../messages";
import { RunContext, useRunState } from "../runstate/context";
import { type OpenRun, openRun } from "../runstate/open";
import form from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { ConfirmDialog } from "./ConfirmDialog";
import { type RunActions, RunActionsContext } from "./context";
import type { Draft } from "./draft";
import type { Sendable } from "./intent";
import type { Answer } from "./send";
import { useAvailability } from "./useAvailability";
import { intents } from "./useSend";

export interface RunDialogProps {
  action: Sendable;
  runId: string;
  stepId: string | null;
  logicalAttemptId: number | null;
  /** Shown until the run is known. */
  title: string;
  /** Choices that the button made when it opened the dialog. */
  draft?: Partial<Draft>;
  done: (answer: Answer) => void;
  close: () => void;
}

export function RunDialog(props: RunDialogProps) {
  const { runId, title, close } = props;
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
    <Waiting title={title} close={close} error={error} />
  );
}

function Confirm({ action, runId, stepId, logicalAttemptId, title, draft, done, close }: RunDialogProps) {
  const known = useRunState((store) => store.header() !== null);
  const actions = useAvailability(runId, stepId);
  const [kept] = useState(() => {
    const form = intents.form(action, runId, stepId, logicalAttemptId);
    return { ...form, draft: { ...form.draft, ...draft } };
  });
  const acts: RunActions = useMemo(() => ({ actions, act: () => {}, menu: () => {} }), [actions]);
  if (!known) return <Waiting title={title} close={close} error={null} />;
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

/** Stands for the dialog until the run is known. */
function Waiting({ title, close, error }: Pick<RunDialogProps, "title" | "close"> & { error: ApiError | null }) {
  return (
    <Dialog title={title} onClose={close}>
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
