import { Copy } from "lucide-react";
import { ActionButton } from "../actions/ActionButton";
import type { Actions } from "../actions/useActions";
import type { RunHeader, RunRow } from "../api/model";
import { m } from "../messages";
import { useRunStore, useVerdict } from "../runs/context";
import { Button } from "../ui/Button";
import { count, duration, shortId, ticking } from "../ui/format";
import { ended, runLook } from "../ui/look";
import { StatusBadge } from "../ui/Status";
import { Time, useTick } from "../ui/Time";
import css from "./RunHeader.module.css";
import { SyncChip } from "./Sync";

/** Time from start to end, or to now; "≥" when now is not known. */
export function took(run: Pick<RunRow, "startedAt" | "completedAt" | "totalDurationMs">, now: number, frozen: boolean): string | null {
  if (run.startedAt === null) return null;
  if (run.totalDurationMs !== null) return duration(run.totalDurationMs);
  if (run.completedAt !== null) return duration(run.completedAt - run.startedAt);
  return `${frozen ? "≥ " : ""}${ticking(now - run.startedAt)}`;
}

/** What the status means for the person who reads it. */
function statusWords(header: RunHeader, now: number): string | null {
  const { substatus, status, failedSteps, retryDeadline, pause, queue, message } = header;
  if (substatus === "AWAITING_OPERATOR") {
    const left = retryDeadline === null ? null : retryDeadline - now;
    const window = left === null ? null : left > 0 ? m.run.windowCloses(ticking(left)) : m.run.windowClosed;
    return [m.run.stepsFailed(failedSteps), window].filter((part) => part !== null).join(" · ");
  }
  if (status === "PAUSED" && pause) {
    const draining = substatus === "DRAINING" ? ` ${m.run.draining(pause.draining)}` : "";
    return `${m.run.pausedBy(pause.requestedBy ?? "?", pause.reason)}.${draining}`;
  }
  if (status === "PENDING" && queue) return `${queue.status.toLowerCase()}, ${m.run.queuedSince} ${ticking(now - queue.createdAt)}`;
  return message;
}

const COUNTS = [
  ["success", "success", "succeeded"],
  ["failed", "failed", "failed"],
  ["running", "running", "running"],
  ["pending", "pending", "pending"],
  ["skipped", "skipped", "skipped"],
] as const;

export function RunHeaderView({ header, actions }: { header: RunHeader; actions: Actions | null }) {
  const store = useRunStore();
  const verdict = useVerdict();
  useTick(1_000, !ended(header) || store.frozen());
  const now = store.now();
  const total = took(header, now, store.frozen());
  const words = statusWords(header, now);
  const { stepCounts } = header;
  const production = /^prod/i.test(header.environmentId);
  return (
    <header className={css.header}>
      <div className={css.line}>
        <h1 className={css.name}>
          <span className={css.crumbs}>
            {header.tenantId} / {header.projectId} / <span className={production ? css.production : css.environment}>{header.environmentId}</span>
          </span>{" "}
          {header.plan.planId}
          <span className={css.version}>@{header.plan.planVersion}</span>
        </h1>
        <Button kind="quiet" label={`${m.run.copyId} ${shortId(header.runId)}`} onClick={() => void navigator.clipboard.writeText(header.runId)}>
          <code title={header.runId}>{shortId(header.runId)}</code> <Copy size={13} aria-hidden="true" />
        </Button>
        <span className={css.push}>
          <SyncChip verdict={verdict} now={store.clock.now()} />
        </span>
      </div>
      <div className={css.line}>
        <span aria-live="polite" data-testid="run-status" className={css.status}>
          <StatusBadge look={runLook(header)} large />
        </span>
        {words && <p className={css.words}>{words}</p>}
        <div className={css.actions}>
          {header.status === "PAUSED" ? <ActionButton action="RESUME" actions={actions} kind="primary" /> : <ActionButton action="PAUSE" actions={actions} />}
          <ActionButton action="CANCEL" actions={actions} kind="danger" />
        </div>
      </div>
      <p className={css.facts}>
        {total && (
          <>
            <strong data-testid="took">{total}</strong> ·{" "}
          </>
        )}
        {COUNTS.filter(([key]) => stepCounts[key] > 0).map(([key, tone, word]) => (
          <span key={key} className={css.count} data-tone={tone}>
            {count(stepCounts[key])} {word}
          </span>
        ))}
        <span>of {count(stepCounts.total)} steps</span>
        {header.triggeredBy && <span> · {m.run.startedBy(header.triggeredBy)}</span>}
        <span>
          {" "}
          · <Time at={header.startedAt ?? header.createdAt} format="full" />
        </span>
      </p>
    </header>
  );
}
