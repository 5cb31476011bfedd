import { type FormEvent, Suspense, useEffect, useRef, useState } from "react";
import type { RunHeader } from "../api/model";
import { RunDiff } from "../history/RunDiff";
import { CopyAs } from "../copyas/CopyAs";
import { Env } from "../ui/Env";
import { m } from "../messages";
import { useHeader, useRunStore, useVerdict } from "../runstate/context";
import { titleOf } from "../runstate/stepTitle";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { shortId, ticking } from "../format/format";
import { lazyPart } from "../ui/lazyPart";
import { useTick } from "../ui/Time";
import { useRunActions } from "./context";
import { recordDone, useDone } from "../session/done";
import css from "../styles/Confirm.module.css";
import { buildInput, type Draft, EMPTY_DRAFT, rerunFrom, rerunParams } from "./draft";
import { Fields } from "./Fields";
import type { Intent } from "./intent";
import type { Kept } from "./intents";
import { consequences } from "./consequences";
import { PreviewList } from "./PreviewList";
import { stops } from "./refusal";
import { RefusedDialog } from "./RefusedDialog";
import type { Answer } from "./send";
import { sendingKeys } from "./sendingKeys";
import { effectOf, usePreview } from "./usePreview";
import { useRefusal } from "./useRefusal";
import { useSend } from "./useSend";

const Reruns = lazyPart(() => import("../history/Reruns").then((part) => part.Reruns));

const MOVED_NAMED = 6;

interface ConfirmDialogProps {
  kept: Kept;
  onClose: () => void;
  onDone: (answer: Answer) => void;
}

/** What was done without a signal, so without a receipt; null for a signal. */
function doneWords({ decision, newRunId }: Answer, header: RunHeader | null): string | null {
  const run = header ? `${header.plan.planId} ${shortId(header.runId)}` : "";
  if (newRunId !== null) return m.receipt.reran(run, shortId(newRunId));
  return decision === undefined ? null : m.receipt.decided[decision](run);
}

/** The form as it opens: a rerun from the chosen step, of what failed, or of everything. */
function openingDraft({ action, stepId }: Intent, succeeded: boolean): Draft {
  if (action !== "RERUN") return EMPTY_DRAFT;
  return { ...EMPTY_DRAFT, from: stepId !== null ? "step" : succeeded ? "start" : "failed", step: stepId ?? "" };
}

/** The state that the action is about, as text. When it changes, the preview may be wrong. */
function concernOf(header: RunHeader, changedSeq: number | null): string {
  return `${header.status}/${header.substatus ?? ""}/${changedSeq ?? ""}`;
}

/** Previews an action, takes a reason, and asks for a confirmation that fits its strength. Only its button sends. */
export function ConfirmDialog({ kept: first, onClose, onDone }: ConfirmDialogProps) {
  const store = useRunStore();
  const header = useHeader();
  const verdict = useVerdict();
  const { actions } = useRunActions();
  const record = useDone();
  const { action, stepId } = first.intent;
  const { reason: refused, availability } = useRefusal(action, stepId);
  // A run in which every step succeeded has nothing to run again but all of it.
  const succeeded = header !== null && header.stepCounts.success === header.stepCounts.total;
  const opened = first.draft === EMPTY_DRAFT ? { ...first, draft: openingDraft(first.intent, succeeded) } : first;
  const { kept, change, sending, error, reviewed, waitUntil, clear, submit, drop } = useSend(opened, (answer) => {
    const what = doneWords(answer, header);
    const { runId } = first.intent;
    if (answer.change)
      recordDone({ topic: runId, what: what ?? "", run: runId, effect: { run: runId }, change: answer.change });
    else if (what !== null) {
      const effect = answer.newRunId === null ? null : { run: answer.newRunId };
      record({ topic: runId, what, effect, audit: { action, run: runId } });
    }
    onDone(answer);
  });
  const { intent } = kept;
  // While a freeze refuses approvals, the form begins with the decision that is still possible.
  const onlyReject = action === "APPROVE" && refused !== null && actions?.mayReject === true;
  const draft: Draft = onlyReject ? { ...kept.draft, decision: "REJECT" } : kept.draft;
  const blocked = onlyReject ? null : refused;
  const corrected = onlyReject && kept.draft.decision !== "REJECT";
  useEffect(() => {
    if (corrected) change(draft);
    // Once for each form that began with an approval.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [corrected]);
  // An action that was never possible must not say that it no longer is.
  const [wasPossible, setWasPossible] = useState(false);
  if (refused === null && !wasPossible) setWasPossible(true);
  const denied = !wasPossible && availability?.outcome === "REFUSED" && availability.code === "FORBIDDEN";
  const [typed, setTyped] = useState("");
  // The input whose preview the person has read, and the effect that it named.
  const [read, setRead] = useState({ of: "", effect: "" });
  const backRef = useRef<HTMLButtonElement>(null);
  const reasonRef = useRef<HTMLInputElement>(null);
  const strong = availability?.strength === "STRONG";
  useEffect(() => {
    (strong ? backRef.current : reasonRef.current)?.focus();
    // The focus is set once, when the dialog opens.
    // oxlint-disable-next-line react/exhaustive-deps
  }, []);
  useTick(1_000, waitUntil > 0 || verdict.state === "STALE");
  const step = stepId === null ? undefined : store.step(stepId);
  const task = stepId === null ? undefined : actions?.task(stepId);
  const reasonNeeded =
    availability?.reasonRequired === true ||
    action === "SKIP_STEP" ||
    (action === "APPROVE" && draft.decision === "REJECT");
  // The reason does not change the effect, so the preview uses a fixed one.
  const asked = buildInput(intent, { ...draft, reason: "-" }, task?.token ?? null);
  const previewed = usePreview(
    "input" in asked && !denied ? asked.input : null,
    header ? concernOf(header, step?.changedSeq ?? null) : "",
  );
  const current = "input" in asked && previewed.of === JSON.stringify(asked.input) ? previewed.preview : null;
  if (current && read.of !== previewed.of) setRead({ of: previewed.of ?? "", effect: effectOf(current) });
  const moved = error?.code === "RUN_MOVED";
  const { again } = previewed;
  useEffect(() => {
    if (moved) again();
    // One new preview for each refusal.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [moved]);
  if (!header) return null;
  if (denied && refused !== null)
    return <RefusedDialog availability={availability} reason={refused} stepId={stepId} onClose={onClose} />;

  const word = shortId(header.runId);
  const otherwise = current !== null && read.of === previewed.of && read.effect !== effectOf(current) && !stops(action);
  const reviewAgain = moved || otherwise;
  // The new preview must be from after the move.
  const unread = current === null || (moved && current.basedOnSeq < (error.currentSeq ?? 0));
  const applies =
    current !== null
      ? current.outcome === "APPLY" || current.outcome === "NOOP"
      : previewed.error !== null && stops(action);
  const offered = !sending && blocked === null && waitUntil === 0 && applies;
  const complete = (!reasonNeeded || draft.reason.trim() !== "") && (!strong || typed === word);
  const label = action === "APPROVE" && draft.decision === "REJECT" ? m.confirm.reject : m.action[action];
  const offline = verdict.state === "OFFLINE";
  // The steps that a failure holds would hide how little the pause adds.
  const holds = (header.rootCause?.heldSteps ?? 0) > 0;
  const set = (part: Partial<Draft>): void => change({ ...draft, ...part });
  const leave = (): void => {
    if (kept.sent === null) drop();
    onClose();
  };

  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    const ready = buildInput(intent, draft, task?.token ?? null);
    if (!offered || !complete || !("input" in ready) || reviewAgain) return;
    submit(ready.input, current?.basedOnSeq ?? header.runSeq);
  };
  const review = (): void => {
    clear();
    if (current) setRead({ of: previewed.of ?? "", effect: effectOf(current) });
  };

  return (
    <Dialog
      alert={strong}
      onClose={leave}
      title={
        <>
          {m.confirm.title(label, stepId === null ? header.plan.planId : titleOf(store, stepId))}{" "}
          <Env id={header.environmentId} />
        </>
      }
    >
      <form onSubmit={onSubmit} onKeyDown={sendingKeys(strong)}>
        <p>
          {current
            ? current.outcome === "REFUSED"
              ? ""
              : m.confirm.basedOn(current.basedOnSeq)
            : "missing" in asked
              ? asked.missing
              : previewed.error || offline
                ? ""
                : m.confirm.asking}
        </p>
        {current && (
          <PreviewList
            preview={action === "PAUSE" && holds ? { ...current, blocked: [] } : current}
            consequences={current.outcome === "APPLY" ? consequences(action, header) : []}
            nameOf={(id) => titleOf(store, id)}
            steps={store.order()}
            stepId={action === "RERUN" ? null : stepId}
          />
        )}
        {action === "RERUN" && (
          <Suspense>
            <Reruns header={header} className={css.warn} before={m.confirm.alreadyRerun} />
          </Suspense>
        )}
        {previewed.error && !current && !offline && (
          <p className={css.warn} role="alert">
            {stops(action) ? m.confirm.noPreviewStop : m.confirm.noPreview} {previewed.error.message}{" "}
            <code>{previewed.error.code}</code>
          </p>
        )}
        {verdict.state === "STALE" && (
          <p className={css.warn}>{m.confirm.stopWhileStale(ticking(store.clock.now() - verdict.asOf))}</p>
        )}
        <Fields
          intent={intent}
          draft={draft}
          denied={availability?.code === "RETRY_POLICY_DENIED"}
          noApproval={onlyReject ? refused : null}
          task={task}
          steps={store.order()}
          succeeded={succeeded}
          change={set}
        />
        <label className={css.field}>
          <span>
            {m.confirm.reason}{" "}
            <span className={css.hint}>({reasonNeeded ? m.confirm.required : m.confirm.reasonHint})</span>
          </span>
          <input
            ref={reasonRef}
            value={draft.reason}
            maxLength={1000}
            required={reasonNeeded}
            onChange={(event) => set({ reason: event.target.value })}
          />
        </label>
        {strong && (
          <label className={css.field}>
            <span>{m.confirm.typeToConfirm(word)}</span>
            <input
              className={css.mono}
              value={typed}
              autoComplete="off"
              spellCheck={false}
              onChange={(event) => setTyped(event.target.value)}
            />
          </label>
        )}
        <div role="alert" className={css.problem}>
          {error && !moved && (
            <p>
              {error.message} <code>{error.code}</code> {error.whoCould.length > 0 && m.denied.could(error.whoCould)}
              {error.code === "NETWORK" && ` ${m.confirm.sameAgain}`}
            </p>
          )}
          {blocked !== null && !sending && (
            <p>
              {!offline && wasPossible && m.confirm.notNow} {blocked}
            </p>
          )}
          {moved && (
            <Moved runId={header.runId} from={reviewed} to={Math.max(reviewed, error.currentSeq ?? header.runSeq)} />
          )}
          {otherwise && !moved && <p>{m.confirm.otherwise}</p>}
        </div>
        {action === "RERUN" ? (
          <CopyAs subject={{ of: "rerun", runIds: [header.runId], ...rerunCopy(draft, stepId) }} />
        ) : (
          <CopyAs subject={{ of: "signal", action, runId: header.runId, stepId, reason: draft.reason.trim() }} />
        )}
        <div className={css.buttons}>
          <Button back ref={backRef} onClick={leave}>
            {action === "CANCEL" || action === "EMERGENCY_STOP" ? m.confirm.keep : m.confirm.back}
          </Button>
          {reviewAgain ? (
            <Button kind="primary" refusal={unread ? m.confirm.asking : null} onClick={review}>
              {m.confirm.reviewAgain}
            </Button>
          ) : (
            <button
              type="submit"
              className={css.send}
              data-danger={strong || undefined}
              disabled={!offered || !complete}
            >
              {sending
                ? m.confirm.sending
                : waitUntil > 0
                  ? m.confirm.wait(ticking(waitUntil - Date.now() + 1_000))
                  : label}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

/** The rerun that the form describes, for *Copy as*. */
function rerunCopy(draft: Draft, stepId: string | null) {
  const params = rerunParams(draft.patch);
  const step = draft.step.trim() === "" ? (stepId ?? "") : draft.step.trim();
  return {
    from: rerunFrom(draft.from, step),
    params: "value" in params ? params.value : null,
    reason: draft.reason.trim(),
  };
}

/** Says why nothing was sent: the changes between the position that was read and the present one. */
function Moved({ runId, from, to }: { runId: string; from: number; to: number }) {
  return (
    <div className={css.moved} data-testid="moved">
      <p>{m.confirm.moved(from, to)}</p>
      <RunDiff runId={runId} from={from} to={to} most={MOVED_NAMED} />
    </div>
  );
}
