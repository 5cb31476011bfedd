import { Link } from "@tanstack/react-router";
import { Copy, OctagonX } from "lucide-react";
import { useMemo, useState } from "react";
import { useActs } from "../actions/act";
import { instant, type RunHeader } from "../api/model";
import { m } from "../messages";
import { useHeader, useOrder, useRunStore, useStep } from "../runs/context";
import { Button } from "../ui/Button";
import { attemptName, count, shortId } from "../ui/format";
import { Time } from "../ui/Time";
import button from "../ui/Button.module.css";
import prose from "../ui/Prose.module.css";
import css from "./CauseCard.module.css";

const NAMED = 3;
type Cause = NonNullable<RunHeader["rootCause"]>;

/** What broke, in its own words, what it holds up, and the next safe action. */
export function CauseCard() {
  const header = useHeader();
  const cause = header?.rootCause;
  return cause && <Known header={header} cause={cause} />;
}

function Known({ header, cause }: { header: RunHeader; cause: Cause }) {
  const { stepId, logicalAttemptId, code, category, message, retryable, blockedSteps, firstSeq } = cause;
  const failedAt = useStep(stepId ?? "")?.attempts.find((attempt) => attempt.logicalAttemptId === logicalAttemptId)?.completedAt ?? null;
  const facts = [
    category && category !== "UNKNOWN" ? category : null,
    retryable ? m.run.retryable : m.run.notRetryable,
    `seq ${firstSeq}`,
  ].filter((fact) => fact !== null);
  return (
    <section className={css.card} aria-labelledby="root-cause" data-testid="root-cause">
      <h2 id="root-cause" className={css.title}>
        {m.run.rootCause}
      </h2>
      <p className={css.line}>
        <OctagonX size={16} aria-hidden="true" className={css.icon} />
        {stepId && (
          <Link from="/runs/$runId" to="." search={(old) => ({ ...old, step: stepId, tab: "error", attempt: undefined, line: undefined })} className={css.step}>
            {stepId}
          </Link>
        )}
        {logicalAttemptId !== null && logicalAttemptId > 1 && <span>{attemptName(logicalAttemptId)}</span>}
        <code className={css.code}>{code}</code>
        <span className={css.facts}>
          {facts.join(" · ")}
          {failedAt !== null && (
            <>
              {" "}
              · <Time at={failedAt} format="clock" />
            </>
          )}
        </span>
        {blockedSteps > 0 && (
          <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "steps", show: ["PENDING"] })}>
            {m.run.blocks(blockedSteps)}
          </Link>
        )}
      </p>
      {message && <pre className={`${prose.said} ${css.message}`}>{message}</pre>}
      <LastGreen />
      <AlsoFailed failed={header.failedSteps} cause={stepId} />
      <div className={css.buttons}>
        {stepId && <LogLink stepId={stepId} attempt={logicalAttemptId} />}
        <CopyError text={[stepId, code, message].filter((part) => part !== null).join("\n")} />
      </div>
    </section>
  );
}

/** To the log of the attempt that failed, where it says why. */
function LogLink({ stepId, attempt }: { stepId: string; attempt: number | null }) {
  const latest = useRunStore().step(stepId)?.logicalAttemptId;
  const line = useActs().actions?.causeLine ?? null;
  return (
    <Link
      from="/runs/$runId"
      to="."
      search={(old) => ({ ...old, step: stepId, tab: "log", attempt: attempt === latest || attempt === null ? undefined : attempt, line: undefined })}
      className={button.button}
      aria-keyshortcuts="l"
    >
      {line === null ? m.run.openLog : m.run.logLine(line)} <kbd className={button.key} aria-hidden="true">l</kbd>
    </Link>
  );
}

/** What to compare with: the last time it went well. */
function LastGreen() {
  const { actions } = useActs();
  if (!actions?.lastGreen) return null;
  const { runId, completedAt, createdAt } = actions.lastGreen;
  return (
    <p className={css.facts}>
      {m.run.lastGreen}{" "}
      <Link to="/runs/$runId" params={{ runId }} search={{}}>
        {shortId(runId)}
      </Link>
      , <Time at={instant(completedAt ?? createdAt)} format="full" />
    </p>
  );
}

/** The other steps that failed: they may be the same trouble, or a second one. */
function AlsoFailed({ failed, cause }: { failed: number; cause: string | null }) {
  const store = useRunStore();
  const order = useOrder();
  const others = useMemo(() => (failed <= 1 ? [] : order.filter((id) => id !== cause && store.step(id)?.status === "FAILED")), [store, order, failed, cause]);
  if (others.length === 0) return null;
  return (
    <p className={css.facts}>
      {m.run.alsoFailed}{" "}
      {others.slice(0, NAMED).map((id, i) => (
        <span key={id}>
          {i > 0 && ", "}
          <Link from="/runs/$runId" to="." search={(old) => ({ ...old, step: id, tab: "error", attempt: undefined, line: undefined })}>
            {id}
          </Link>
        </span>
      ))}{" "}
      {others.length > NAMED && (
        <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "steps", show: ["FAILED"] })}>
          {m.run.andMore(count(others.length - NAMED))}
        </Link>
      )}
    </p>
  );
}

function CopyError({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <Button kind="quiet" onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}>
      <Copy size={14} aria-hidden="true" /> {copied ? m.run.copied : m.run.copy}
    </Button>
  );
}
