import { Link } from "@tanstack/react-router";
import { Copy, OctagonX } from "lucide-react";
import { Suspense, useState } from "react";
import { useRunActions } from "../actions/context";
import { explain } from "../actions/refusal";
import type { RunHeader } from "../api/model";
import { m } from "../messages";
import { useCauseNodes } from "./causeNodes";
import { useHeader, useStep, useVerdict } from "../runstate/context";
import { ended } from "../status/look";
import { DBT_FAILING, type Failing, isDbt } from "../step/dbt";
import { RESET_STEP_PARAMS, readLog } from "../address/views";
import { Button } from "../ui/Button";
import { lazyPart } from "../ui/lazyPart";
import { attemptName } from "../format/format";
import { Time } from "../ui/Time";
import button from "../ui/Button.module.css";
import prose from "../styles/Prose.module.css";
import doctor from "../doctor/Doctor.module.css";
import css from "./CauseCard.module.css";
import { CancelledCard } from "./CancelledCard";
import { besideQuote, CauseLog, lineText, useCauseLines } from "./CauseLog";
import { CauseMore } from "./CauseMore";
import { HeldLinks } from "./HeldLinks";

const DoctorLine = lazyPart(() => import("../doctor/RunDoctor").then((part) => part.DoctorLine));

type Cause = NonNullable<RunHeader["rootCause"]>;

const FOLDED = "folded";
/** The longest text that stands beside the code. */
const SHORT = 60;

/**
 * The root cause: the step and its error, the steps that it holds, and the next action. It folds to its first lines
 * while a step is open, which shows more of it, and stays folded once a person folded it. When `brief`, in views that need the
 * height of the window, it folds to one line that still says the error.
 */
export function CauseCard({ folded = false, brief = false }: { folded?: boolean; brief?: boolean }) {
  const header = useHeader();
  const cause = header?.rootCause;
  if (header?.cancellation) return <CancelledCard header={header} cancellation={header.cancellation} />;
  return (
    cause && (
      <Known key={`${cause.firstSeq} ${brief}`} header={header} cause={cause} besideStep={folded} brief={brief} />
    )
  );
}

/**
 * Whether the card is folded, and how to turn it. The tab of the browser remembers only that a person folded the whole
 * card. A card that opens folded, because it is `brief` or beside a step, is not remembered.
 */
function useFolding(key: string, opensFolded: boolean): [boolean, () => void] {
  const [wanted, setWanted] = useState<boolean | null>(null);
  const [remembered] = useState(() => sessionStorage.getItem(key) === FOLDED);
  const folded = wanted ?? (opensFolded || remembered);
  const turn = (): void => {
    if (folded) sessionStorage.removeItem(key);
    else if (!opensFolded) sessionStorage.setItem(key, FOLDED);
    setWanted(!folded);
  };
  return [folded, turn];
}

interface KnownProps {
  header: RunHeader;
  cause: Cause;
  besideStep: boolean;
  brief: boolean;
}

function Known({ header, cause, besideStep, brief }: KnownProps) {
  const { stepId, logicalAttemptId, code, category, message, retryable, firstSeq } = cause;
  const step = useStep(stepId ?? "");
  const failedAt = step?.attempts.find((attempt) => attempt.logicalAttemptId === logicalAttemptId)?.completedAt ?? null;
  // Before the steps are known, the code says whether the cause is dbt.
  const dbt = isDbt(step?.type ?? code);
  const failing = useCauseNodes(
    dbt && stepId !== null ? { runId: header.runId, stepId, attempt: logicalAttemptId, failing: DBT_FAILING } : null,
  );
  // An address without an attempt means the latest one.
  const attempt =
    logicalAttemptId === null || logicalAttemptId === step?.logicalAttemptId ? undefined : logicalAttemptId;
  const { actions } = useRunActions();
  const past = useVerdict().state === "PAST";
  const line = actions?.causeLine ?? null;
  const lines = useCauseLines(header.runId, stepId, logicalAttemptId, line);
  // Until the quoted lines are known they have a place, so that the views below do not move.
  const awaited = stepId !== null && (actions === null || (line !== null && lines === undefined));
  const [folded, turn] = useFolding(`dvt.cause.${header.runId}.${firstSeq}`, besideStep || brief);
  // They keep it when the log is shorter, because the views would move up.
  const [reserved] = useState(awaited && !folded && message !== null);
  const said = message !== null && !folded ? besideQuote(lines, message) : message;
  // What the quoted lines leave, such as the name of a model, takes no lines of its own, which the graph needs.
  const short = said !== null && said !== message && said.length <= SHORT && !said.includes("\n") ? said : null;
  // The line that the log button names says more than the end of the output.
  const errorLine = line === null ? null : lineText(lines, line);
  // A run that has ended can only be rerun.
  const canRetry = !retryable ? m.run.notRetryable : ended(header) ? null : m.run.retryable;
  const turner = (
    <Button kind="quiet" expanded={!folded} onClick={turn}>
      {folded ? m.run.more : m.run.less}
    </Button>
  );
  if (folded && brief) {
    const text = errorLine ?? message ?? "";
    return (
      <section className={`${css.card} ${css.brief}`} aria-labelledby="root-cause" data-testid="root-cause" data-folded>
        <OctagonX size={16} aria-hidden="true" className={css.icon} />
        <h2 id="root-cause" className={prose.hidden}>
          {m.run.rootCause}
        </h2>
        {stepId && <CauseStep stepId={stepId} name={step?.name ?? stepId} />}
        {logicalAttemptId !== null && logicalAttemptId > 1 && <span>{attemptName(logicalAttemptId)}</span>}
        <code className={css.code}>{code}</code>
        <span className={css.error} title={text} data-testid="cause-line">
          {text}
        </span>
        {stepId && <LogLink stepId={stepId} attempt={attempt} />}
        {turner}
      </section>
    );
  }
  return (
    <section
      className={css.card}
      aria-labelledby="root-cause"
      data-testid="root-cause"
      data-folded={folded || undefined}
    >
      <div className={css.head}>
        <div className={css.line}>
          <OctagonX size={16} aria-hidden="true" className={css.icon} />
          <h2 id="root-cause" className={css.title}>
            {m.run.rootCause}
          </h2>
          {stepId && <CauseStep stepId={stepId} name={step?.name ?? stepId} />}
          {stepId && step?.name && <code className={css.id}>{stepId}</code>}
          {logicalAttemptId !== null && logicalAttemptId > 1 && <span>{attemptName(logicalAttemptId)}</span>}
          <code className={css.code}>{code}</code>
          {short !== null && <code title={m.run.message}>{short}</code>}
          <span className={css.facts} title={[category, `seq ${firstSeq}`].filter((fact) => fact !== null).join(" · ")}>
            {canRetry !== null && <span>{canRetry} · </span>}
            {stepId && (
              // The time comes with the steps, after the header. It has its place before, because a line that grows
              // would wrap.
              <span data-awaited={failedAt === null || undefined}>
                <Time at={failedAt ?? header.createdAt} format="clock" />
              </span>
            )}
          </span>
        </div>
        {turner}
      </div>
      <div className={css.effect}>
        <HeldLinks cause={cause} />
        {!folded && <CauseMore header={header} cause={stepId} {...(dbt ? { nodes: { attempt, failing } } : {})} />}
      </div>
      <div className={css.said} data-reserved={(reserved && !folded) || undefined}>
        {said && short === null && (
          <pre className={`${prose.said} ${css.message}`} tabIndex={0} aria-label={m.run.message}>
            {folded ? (errorLine ?? said) : said}
          </pre>
        )}
        {!folded && line !== null && <CauseLog line={line} lines={lines} />}
      </div>
      {stepId && <MayNotRetry stepId={stepId} />}
      <div className={css.buttons}>
        {stepId && <LogLink stepId={stepId} attempt={attempt} />}
        <CopyError text={[stepId, code, message].filter((part) => part !== null).join("\n")} />
        {stepId && dbt && <SqlLink stepId={stepId} attempt={attempt} failing={failing} />}
        {/* The doctor looks at the present only. */}
        {!folded && !past && (
          <Suspense fallback={<p className={doctor.line} />}>
            <DoctorLine header={header} />
          </Suspense>
        )}
      </div>
    </section>
  );
}

function CauseStep({ stepId, name }: { stepId: string; name: string }) {
  return (
    <Link
      from="/runs/$runId"
      to="."
      search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: stepId, tab: "error" })}
      className={css.step}
    >
      {name}
    </Link>
  );
}

/** Why the viewer may not retry the step, and who may: nobody should have to point at the disabled button for it. */
function MayNotRetry({ stepId }: { stepId: string }) {
  const may = useRunActions().actions?.step(stepId)?.get("RETRY_STEP");
  if (may?.outcome !== "REFUSED" || may.code !== "FORBIDDEN") return null;
  return (
    <p className={css.facts} data-testid="may-not-retry">
      {explain(may)}
    </p>
  );
}

/** A link to the log of the failed attempt, at its error. */
function LogLink({ stepId, attempt }: { stepId: string; attempt: number | undefined }) {
  const line = useRunActions().actions?.causeLine ?? null;
  return (
    <Link
      from="/runs/$runId"
      to="."
      search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: stepId, attempt, tab: "log" })}
      state={readLog}
      className={`${button.button} ${css.logLink}`}
      aria-keyshortcuts="l"
    >
      {line === null ? m.run.openLog : m.run.logLine(line)}{" "}
      <kbd className={button.key} aria-hidden="true">
        l
      </kbd>
    </Link>
  );
}

/** A link to the SQL of the first failed model. It keeps its place while that is unknown. */
function SqlLink({
  stepId,
  attempt,
  failing,
}: {
  stepId: string;
  attempt: number | undefined;
  failing: Failing | null | undefined;
}) {
  const sql = failing?.sql ?? null;
  return (
    <Link
      from="/runs/$runId"
      to="."
      search={(old) => ({
        ...old,
        ...RESET_STEP_PARAMS,
        step: stepId,
        attempt,
        tab: "models",
        nodes: failing?.statuses,
        sql: sql?.uniqueId,
      })}
      className={button.button}
      data-awaited={sql === null || undefined}
      title={sql === null ? undefined : m.run.sqlOf(sql.name)}
    >
      {m.run.sql}
    </Link>
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
