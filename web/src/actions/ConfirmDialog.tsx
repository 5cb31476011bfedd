import { type FormEvent, useEffect, useRef, useState } from "react";
import type { Availability, RunHeader, Step } from "../api/model";
import { ApiError } from "../api/request";
import { m } from "../messages";
import { useHeader, useRunStore, useVerdict } from "../runs/context";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { attemptName, shortId, ticking } from "../ui/format";
import { receipts } from "./context";
import { type Intent, send } from "./intent";
import css from "./ConfirmDialog.module.css";

interface ConfirmDialogProps {
  intent: Intent;
  availability: Availability;
  basedOn: number;
  /** Why it is not possible any more, when the run moved under the open dialog. */
  refusal: string | null;
  onClose: () => void;
}

function consequences(intent: Intent, header: RunHeader, step: Step | undefined): string[] {
  const { stepCounts, rootCause } = header;
  switch (intent.action) {
    case "PAUSE":
      return [m.confirm.PAUSE(stepCounts.running)];
    case "RESUME":
      return [m.confirm.RESUME];
    case "CANCEL":
      return m.confirm.CANCEL(stepCounts.running, stepCounts.pending);
    case "RETRY_STEP": {
      const blocked = rootCause?.stepId === intent.stepId ? (rootCause?.blockedSteps ?? 0) : 0;
      return m.confirm.RETRY_STEP(attemptName((step?.logicalAttemptId ?? 0) + 1), blocked, step?.error?.retryable ?? true);
    }
  }
}

export function ConfirmDialog({ intent, availability, basedOn, refusal, onClose }: ConfirmDialogProps) {
  const store = useRunStore();
  const header = useHeader();
  const verdict = useVerdict();
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [sending, setSending] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  // The position that the person has read; it moves only when they look again.
  const [reviewed, setReviewed] = useState(basedOn);
  const [waitUntil, setWaitUntil] = useState(0);
  const backRef = useRef<HTMLButtonElement>(null);
  const reasonRef = useRef<HTMLInputElement>(null);
  const strong = availability.strength === "STRONG";
  useEffect(() => {
    (strong ? backRef.current : reasonRef.current)?.focus();
  }, [strong]);
  useEffect(() => {
    if (waitUntil === 0) return;
    const timer = setTimeout(() => setWaitUntil(0), Math.max(0, waitUntil - Date.now()));
    return () => clearTimeout(timer);
  }, [waitUntil]);
  if (!header) return null;

  const word = shortId(header.runId);
  const step = intent.stepId === null ? undefined : store.step(intent.stepId);
  const moved = error?.code === "RUN_MOVED";
  const offered = !sending && refusal === null && waitUntil === 0 && !moved;
  const complete = (!availability.reasonRequired || reason.trim() !== "") && (!strong || typed === word);
  const label = m.action[intent.action];

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!offered || !complete) return;
    setSending(true);
    setError(null);
    send(intent, { expectedRunSeq: reviewed, reason, force: step?.error?.retryable === false })
      .then((signal) => {
        receipts.receive(signal);
        onClose();
      })
      .catch((cause: unknown) => {
        setSending(false);
        const failure = cause instanceof ApiError ? cause : new ApiError(String(cause));
        setError(failure);
        if (failure.retryAfterMs !== null) setWaitUntil(Date.now() + failure.retryAfterMs);
      });
  };

  return (
    <Dialog alert={strong} onClose={onClose} title={m.confirm.title(label, `${intent.stepId ?? header.plan.planId} in ${header.environmentId}`)}>
      <form
        onSubmit={submit}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) event.currentTarget.requestSubmit();
          else if (event.key === "Enter" && strong && event.target instanceof HTMLInputElement) event.preventDefault();
        }}
      >
        <p>{m.confirm.basedOn(reviewed)}</p>
        <ul className={css.list}>
          {availability.reason !== null && <li>{availability.reason}</li>}
          {consequences(intent, header, step).map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
        {verdict.state === "STALE" && <p className={css.warn}>{m.confirm.stopWhileStale(ticking(store.clock.now() - verdict.asOf))}</p>}
        <label className={css.field}>
          <span>
            {m.confirm.reason} <span className={css.hint}>({availability.reasonRequired ? m.confirm.reasonRequired : m.confirm.reasonHint})</span>
          </span>
          <input ref={reasonRef} value={reason} maxLength={1000} required={availability.reasonRequired} onChange={(event) => setReason(event.target.value)} />
        </label>
        {strong && (
          <label className={css.field}>
            <span>{m.confirm.typeToConfirm(word)}</span>
            <input className={css.mono} value={typed} autoComplete="off" spellCheck={false} onChange={(event) => setTyped(event.target.value)} />
          </label>
        )}
        <div role="alert" className={css.problem}>
          {moved && <p>{m.confirm.moved(error.currentSeq ?? verdict.seq)}</p>}
          {error && !moved && (
            <p>
              {error.message} <code>{error.code}</code> {error.whoCould.length > 0 && m.denied.could(error.whoCould.join(", "))}
            </p>
          )}
          {refusal !== null && !sending && (
            <p>
              {m.confirm.notNow} {refusal}
            </p>
          )}
        </div>
        <div className={css.buttons}>
          <Button ref={backRef} onClick={onClose}>
            {m.confirm.back}
          </Button>
          {moved ? (
            <Button
              kind="primary"
              onClick={() => {
                setReviewed(Math.max(basedOn, error.currentSeq ?? 0, verdict.seq));
                setError(null);
              }}
            >
              {m.confirm.reviewAgain}
            </Button>
          ) : (
            <button type="submit" className={css.send} data-danger={strong || undefined} disabled={!offered || !complete}>
              {sending ? m.confirm.sending : m.confirm.send(label)}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
