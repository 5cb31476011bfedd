import { type ReactNode, useId, useState } from "react";
import type { Availability } from "../api/model";
import { m } from "../messages";
import { useHeader, useRunStore } from "../runstate/context";
import { titleOf } from "../runstate/stepTitle";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { useRunActions } from "./context";
import css from "./ActionMenu.module.css";
import { useViewer } from "../session/viewer";
import { SENDABLE, type Sendable } from "./intent";
import { CopyRequest } from "./PreviewList";
import { SeveralDialog } from "./SeveralDialog";
import { MOST_STEPS } from "./several";
import { useRefusal, useRefusalOfView } from "./useRefusal";

/** A group of actions: first those that are possible, then, folded, those that are not. */
function Actions({ list, stepId, onClose }: { list: readonly Sendable[]; stepId: string | null; onClose: () => void }) {
  const { actions } = useRunActions();
  const of = (action: Sendable): Availability | undefined =>
    stepId === null ? actions?.run.get(action) : actions?.step(stepId)?.get(action);
  const possible = list.filter((action) => of(action)?.outcome === "APPLY" || of(action)?.outcome === "NOOP");
  const others = list.filter((action) => !possible.includes(action));
  const entries = (some: readonly Sendable[]): ReactNode => (
    <ul className={css.list}>
      {some.map((action) => (
        <Entry key={action} action={action} stepId={stepId} onClose={onClose} />
      ))}
    </ul>
  );
  return (
    <>
      {entries(possible)}
      {others.length > 0 && (
        <details open={possible.length === 0}>
          <summary>{m.menu.unavailable(others.length)}</summary>
          {entries(others)}
        </details>
      )}
    </>
  );
}

interface ActionMenuProps {
  stepId: string | null;
  onClose: () => void;
}

/** Lists every action on the run and the chosen step. A refused one says why, and who could do it. */
export function ActionMenu({ stepId, onClose }: ActionMenuProps) {
  const { actions } = useRunActions();
  const store = useRunStore();
  const [failed, retry] = useState<readonly string[] | null>(null);
  const failing = store.order().filter((id) => store.step(id)?.status === "FAILED");
  const refused = useRefusalOfView("RETRY_STEP");
  if (failed !== null)
    return (
      <SeveralDialog
        action="RETRY_STEP"
        runId={store.header()?.runId ?? ""}
        stepIds={failed.slice(0, MOST_STEPS)}
        onClose={onClose}
      />
    );
  const ofRun = SENDABLE.filter((action) => actions?.run.has(action));
  const step = stepId === null ? undefined : actions?.step(stepId);
  return (
    <Dialog title={m.menu.title} onClose={onClose}>
      {actions === null && <p>{m.denied.noAnswer}</p>}
      {stepId !== null && step && (
        <section>
          <h3>{titleOf(store, stepId)}</h3>
          <Actions list={SENDABLE.filter((action) => step.has(action))} stepId={stepId} onClose={onClose} />
        </section>
      )}
      <section>
        <h3>{m.menu.run}</h3>
        {failing.length > 1 && actions?.run.get("CANCEL")?.code !== "RUN_TERMINAL" && (
          <ul className={css.list}>
            <li className={css.entry}>
              <Button refusal={refused} onClick={() => retry(failing)}>
                {m.menu.retryFailed(failing.length)}…
              </Button>
            </li>
          </ul>
        )}
        <Actions list={ofRun} stepId={null} onClose={onClose} />
      </section>
      <div className={css.foot}>
        <Button onClick={onClose}>{m.menu.close}</Button>
      </div>
    </Dialog>
  );
}

interface EntryProps {
  action: Sendable;
  stepId: string | null;
  onClose: () => void;
}

function Entry({ action, stepId, onClose }: EntryProps) {
  const { act } = useRunActions();
  const header = useHeader();
  const id = useId();
  const { policyVersion } = useViewer();
  const { reason, availability } = useRefusal(action, stepId);
  const denied = availability?.outcome === "REFUSED" && availability.code === "FORBIDDEN";
  const open = (): void => {
    onClose();
    act(action, stepId);
  };
  const words = [reason, denied ? m.denied.policy(policyVersion) : null].filter((word) => word !== null).join(" ");
  const subject = [header?.plan.planId, header?.runId, stepId]
    .filter((part) => part !== null && part !== undefined)
    .join(" / ");
  return (
    <li
      className={css.entry}
      data-action={action}
      data-outcome={availability?.outcome}
      data-off={reason !== null || undefined}
    >
      <Button
        refusal={reason}
        saidBy={id}
        onClick={open}
        kind={availability?.strength === "STRONG" ? "danger" : "plain"}
      >
        {m.action[action]}…
      </Button>
      {reason !== null && (
        <p id={id} className={css.why}>
          {words} {denied && <CopyRequest text={m.denied.request(m.action[action], subject, location.href, words)} />}
        </p>
      )}
    </li>
  );
}
