import { type ReactNode, useId, useState } from "react";
import type { Availability } from "../api/model";
import { m } from "../messages";
import { useRunStore } from "../runstate/context";
import { titleOf } from "../runstate/stepTitle";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { useRunActions } from "./context";
import css from "./ActionMenu.module.css";
import { SENDABLE, type Sendable } from "./intent";
import { RequestAll } from "./RequestAll";
import { SeveralDialog } from "./SeveralDialog";
import { MOST_STEPS } from "./several";
import { useRefusal, useRefusalOfView } from "./useRefusal";

/** A group of actions: first those that are possible, then, folded, those that are not. */
function Actions({ list, stepId, onClose }: { list: readonly Sendable[]; stepId: string | null; onClose: () => void }) {
  const { actions } = useRunActions();
  const of = (action: Sendable): Availability | undefined =>
    stepId === null ? actions?.run.get(action) : actions?.step(stepId)?.get(action);
  const possible = list.filter(
    (action) => of(action)?.outcome === "APPLY" || of(action)?.code === "RETRY_POLICY_DENIED",
  );
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
          <summary>{m.menu.unavailable(others.map((action) => m.action[action]).join(", "))}</summary>
          {entries(others)}
          <RequestAll denied={others.flatMap((action) => of(action) ?? []).filter(isDenied)} stepId={stepId} />
        </details>
      )}
    </>
  );
}

function isDenied({ outcome, code }: Availability): boolean {
  return outcome === "REFUSED" && code === "FORBIDDEN";
}

interface ActionMenuProps {
  stepId: string | null;
  onClose: () => void;
  /** Where the run leads besides its actions. */
  more?: ReactNode;
}

/** Lists every action on the run and the chosen step. A refused one says why, and who could do it. */
export function ActionMenu({ stepId, onClose, more }: ActionMenuProps) {
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
      {more && (
        <section className={css.more}>
          <h3>{m.compare.two}</h3>
          {more}
        </section>
      )}
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
  const id = useId();
  const { reason, availability } = useRefusal(action, stepId);
  const open = (): void => {
    onClose();
    act(action, stepId);
  };
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
          {reason}
        </p>
      )}
    </li>
  );
}
