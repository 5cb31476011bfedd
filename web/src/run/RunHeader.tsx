import { Link } from "@tanstack/react-router";
import { Copy, Ellipsis } from "lucide-react";
import { Fragment, type ReactNode, Suspense, useState } from "react";
import { useRunActions } from "../actions/context";
import { ActionButton } from "../actions/ActionButton";
import { useReceipts } from "../receipts/context";
import { useRunReceipts } from "../receipts/useRunReceipts";
import type { Task } from "../actions/useAvailability";
import { RunNotesDocument } from "../api/gen/graphql";
import type { RunHeader } from "../api/model";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { doctor } from "../messages/doctor";
import { PlanLink } from "../plans/links";
import { useHeader, useRunState, useRunStore, useVerdict } from "../runstate/context";
import { titleOf } from "../runstate/stepTitle";
import { RunEnds } from "./RunEnds";
import { manualOf } from "../status/stepGroup";
import { RESET_STEP_PARAMS } from "../address/views";
import { Announce } from "../ui/Announce";
import { Button } from "../ui/Button";
import { count, shortId } from "../format/format";
import { ended } from "../status/look";
import { StatusBadge } from "../ui/Status";
import { Time, useTick } from "../ui/Time";
import { Env } from "../ui/Env";
import { lazyPart } from "../ui/lazyPart";
import css from "./RunHeader.module.css";
import { isUrgent, statusWords } from "./statusWords";
import { took } from "../status/runWords";
import { SyncBanner, SyncChip } from "../freshness/Sync";
import { tryWords, useRetrying, useRetryingCount, useRunLook } from "../waits/retries";
import { useWaits, type Wait } from "../waits/useWaits";

const RunAlerts = lazyPart(() => import("../alerts/RunAlerts").then((part) => part.RunAlerts));
const RunIncident = lazyPart(() => import("../incidents/RunIncident").then((part) => part.RunIncident));
const RunCauses = lazyPart(() => import("../doctor/RunDoctor").then((part) => part.RunCauses));
const RunArchived = lazyPart(() => import("../history/RunArchived").then((part) => part.RunArchived));
const Reruns = lazyPart(() => import("../history/Reruns").then((part) => part.Reruns));

const TASKS = 3;
const STOPS: readonly Wait["kind"][] = ["ENGINE", "STORE", "PLAN_FETCH"];
const COUNTS = [
  ["success", "success", m.run.counts.success],
  ["kept", "skipped", m.run.counts.kept],
  ["failed", "failed", m.run.counts.failed],
  ["stopped", "skipped", m.run.counts.stopped],
  ["running", "running", m.run.counts.running],
  ["retrying", "pending", m.run.counts.retrying],
  ["manual", "person", m.run.counts.manual],
  ["pending", "pending", m.run.counts.pending],
  ["skipped", "skipped", m.run.counts.skipped],
] as const;

export function RunHeaderView() {
  const header = useHeader();
  return header && <Known header={header} />;
}

function Known({ header }: { header: RunHeader }) {
  return (
    <header className={css.bar}>
      <h1 className={css.name} title={`${header.plan.planId}@${header.plan.planVersion}`}>
        <span className={css.crumbs}>
          <span className={css.places}>
            {header.tenantId} / {header.projectId} /{" "}
          </span>
          <Env id={header.environmentId} />
        </span>{" "}
        <PlanLink of={{ ...header, planId: header.plan.planId }}>{header.plan.planId}</PlanLink>
        <span className={css.version}>@{header.plan.planVersion}</span>
      </h1>
      <span className={css.id}>
        <Button
          kind="quiet"
          label={`${m.run.copyId} ${shortId(header.runId)}`}
          onClick={() => void navigator.clipboard.writeText(header.runId)}
        >
          <code title={header.runId}>{shortId(header.runId)}</code> <Copy size={13} aria-hidden="true" />
        </Button>
      </span>
      <Status header={header} />
      <Words header={header} />
      <Alerts header={header} />
      <RunButtons header={header} />
      <span className={css.truth}>
        <Truth />
      </span>
    </header>
  );
}

function Status({ header }: { header: RunHeader }) {
  const look = useRunLook(header);
  return (
    <>
      <span data-testid="run-status" className={css.status}>
        <StatusBadge look={look} />
      </span>
      <Announce text={look.word} />
    </>
  );
}

/** A younger run is not archived, so nobody asks. */
const ARCHIVED_AFTER_MS = 86_400_000;

function isOld({ completedAt }: RunHeader): boolean {
  return completedAt !== null && completedAt < Date.now() - ARCHIVED_AFTER_MS;
}

/**
 * The open incident of a run, and the alerts of an open one: those of one that has ended are resolved. The bar has room
 * for them, so nothing moves.
 */
function Alerts({ header }: { header: RunHeader }) {
  const past = useVerdict().state === "PAST";
  if (past) return null;
  return (
    <Suspense>
      <RunIncident runId={header.runId} />
      {!ended(header) && <RunAlerts runId={header.runId} />}
      {isOld(header) && <RunArchived runId={header.runId} />}
    </Suspense>
  );
}

/**
 * How long the run took, its steps by status, and who started it when. Of an open run without a failure, a button asks
 * the doctor; the card of the root cause asks it by itself.
 */
export function RunFacts() {
  const header = useHeader();
  const past = useVerdict().state === "PAST";
  const [open, setOpen] = useState(false);
  if (!header) return null;
  if (ended(header) || header.rootCause || past) return <Facts header={header} />;
  return (
    <>
      <Facts header={header}>
        {" "}
        ·{" "}
        <button type="button" className={css.ask} aria-expanded={open} onClick={() => setOpen(!open)}>
          {doctor.diagnose}
        </button>
      </Facts>
      {open && (
        <Suspense>
          <RunCauses header={header} />
        </Suspense>
      )}
    </>
  );
}

/** The freshness of the page. It ticks only while it is stale. */
function Truth() {
  const store = useRunStore();
  const verdict = useVerdict();
  useTick(1_000, store.frozen());
  return <SyncChip verdict={verdict} now={store.clock.now()} short />;
}

/** A banner for a page that may not show the present run. */
export function RunTruthBanner() {
  const store = useRunStore();
  const verdict = useVerdict();
  useTick(1_000, store.frozen());
  return <SyncBanner verdict={verdict} now={store.clock.now()} />;
}

function Words({ header }: { header: RunHeader }) {
  const { actions } = useRunActions();
  const store = useRunStore();
  const [wait] = useWaits(header);
  const retrying = useRetrying(header);
  useTick(1_000, !ended(header));
  const quiescent = useReceipts().find(
    (signal) =>
      signal.runId === header.runId &&
      signal.type === "PAUSE" &&
      signal.quiescentSeq !== null &&
      header.pause !== null &&
      signal.receivedAt >= header.pause.since - 60_000,
  );
  // A run is green although a step failed, because a person skipped it.
  const overruled = useRunState((store) =>
    header.status === "COMPLETED" && header.stepCounts.skipped > 0
      ? store.order().filter((id) => {
          const step = store.step(id);
          return step?.status === "SKIPPED" && step.attempts.some(({ status }) => status === "FAILED");
        }).length
      : 0,
  );
  if (header.substatus === "WAITING_MANUAL" && actions && actions.tasks.length > 0)
    return <Waiting tasks={actions.tasks} />;
  if (overruled > 0) return <p className={css.words}>{m.run.overruled(overruled)}</p>;
  if (retrying !== null) {
    const [stepId, next] = retrying;
    return (
      <p className={css.words} data-testid="waits">
        {titleOf(store, stepId)}: {tryWords(next, store.now())}
      </p>
    );
  }
  const words = statusWords(header, store.now(), actions, quiescent, (id) => titleOf(store, id));
  if (wait !== undefined) return <WaitWords wait={wait} words={words} />;
  // An open run keeps an empty place for words on a narrow screen.
  if (words === null) return !ended(header) && <p className={css.words} />;
  return (
    <p
      className={css.words}
      title={words}
      data-cause={header.rootCause !== null || undefined}
      data-urgent={isUrgent(header, store.now()) || undefined}
    >
      {words}
    </p>
  );
}

/** What the run stands still for, with what else is known; the tooltip says who can help. */
function WaitWords({ wait, words }: { wait: Wait; words: string | null }) {
  const { kind, message, since, until, help, whoCould } = wait;
  // Nothing of the run continues, so it comes before the rest.
  const stops = STOPS.includes(kind);
  const who = whoCould.length > 0 ? m.run.whoCanHelp(whoCould) : "";
  return (
    <p className={css.words} role="status" data-testid="waits" title={[message, help, who].join(" ").trim()}>
      {!stops && words !== null && `${words} · `}
      {message}
      {until !== null && (
        <>
          {" "}
          {m.run.waitsUntil} <Time at={instant(until)} format="clock" />
        </>
      )}
      {since !== null && (
        <>
          {" "}
          {m.run.waitsSince} <Time at={instant(since)} />
        </>
      )}
      {stops && words !== null && ` · ${words}`}
    </p>
  );
}

/** Links to the steps that wait for a person, which have the instructions. */
function Waiting({ tasks }: { tasks: readonly Task[] }) {
  const store = useRunStore();
  // Of tasks that nobody else differs in, the first says who can. Why the viewer cannot is a tooltip: it may be long.
  const refused = tasks.every(({ action }) => action.outcome === "REFUSED") ? tasks[0]?.action : undefined;
  const who = refused?.whoCould ?? [];
  return (
    <p className={css.words} title={refused?.reason ?? undefined}>
      {who.length > 0 ? m.run.canComplete(who.join(", ")) : refused ? m.run.toComplete : m.run.youComplete}{" "}
      {tasks.slice(0, TASKS).map(({ stepId }, i) => (
        <Fragment key={stepId}>
          {i > 0 && ", "}
          <Link from="/runs/$runId" to="." search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: stepId })}>
            {titleOf(store, stepId)}
          </Link>
        </Fragment>
      ))}
      {tasks.length > TASKS && ` ${m.run.andMore(count(tasks.length - TASKS))}`}
      {who.length === 0 && refused?.reason && `: ${refused.reason}`}
    </p>
  );
}

function RunButtons({ header }: { header: RunHeader }) {
  const { menu, actions } = useRunActions();
  const task = header.substatus === "WAITING_MANUAL" ? actions?.tasks[0] : undefined;
  // A run that is being compensated cannot be retried.
  const cause = header.substatus === "COMPENSATING" ? null : (header.rootCause?.stepId ?? null);
  return (
    <div className={css.actions}>
      {ended(header) ? (
        <ActionButton action="RERUN" kind="primary" />
      ) : (
        <>
          {cause !== null && <ActionButton action="RETRY_STEP" stepId={cause} kind="primary" shortcut="r" />}
          {task && <ActionButton action="COMPLETE_MANUAL_STEP" stepId={task.stepId} kind="primary" />}
          {header.status === "PENDING" && header.startedAt === null ? (
            <Approval />
          ) : header.status === "PAUSED" ? (
            <ActionButton action="RESUME" kind="primary" shortcut="P" />
          ) : (
            <ActionButton action="PAUSE" shortcut="P" />
          )}
          <span className={css.wide}>
            <ActionButton action="CANCEL" kind="danger" />
          </span>
        </>
      )}
      <Button label={m.menu.title} shortcut="." onClick={menu}>
        <Ellipsis size={16} aria-hidden="true" />
      </Button>
    </div>
  );
}

function Approval() {
  const { actions } = useRunActions();
  return actions?.run.has("APPROVE") && <ActionButton action="APPROVE" kind="primary" />;
}

function Facts({ header, children }: { header: RunHeader; children?: ReactNode }) {
  const store = useRunStore();
  useTick(1_000, !ended(header));
  const ran = useRunState((store) => (store.whole() ? store.tally().running : null));
  const manual = manualOf(header, ran);
  const { success, failed, running, stopped, kept } = header.stepCounts;
  const retrying = Math.min(useRetryingCount(header), running - manual);
  const stepCounts = {
    ...header.stepCounts,
    success: success - kept,
    // A step that somebody stopped has not failed.
    failed: failed - stopped,
    running: running - manual - retrying,
    retrying,
    manual,
  };
  const total = took(header, store.now(), store.frozen());
  return (
    <p className={css.facts}>
      <span className={css.shortId}>
        <code title={header.runId}>{shortId(header.runId)}</code> ·{" "}
      </span>
      {total && <strong data-testid="took">{total}</strong>}
      {total && stepCounts.total > 0 && " · "}
      {COUNTS.filter(([key]) => stepCounts[key] > 0).map(([key, tone, word]) => (
        <StepCount
          key={key}
          n={stepCounts[key]}
          tone={tone}
          word={key === "pending" && ended(header) ? m.run.counts.neverStarted : word}
        />
      ))}
      {stepCounts.total > 0 && <span>{m.run.ofSteps(stepCounts.total)}</span>}
      <Retries header={header} />
      {(total || stepCounts.total > 0) && " · "}
      <RunEnds header={header} />
      {header.triggeredBy && (
        <span>
          {header.startedAt === null ? m.run.requestedBy(header.triggeredBy) : m.run.startedBy(header.triggeredBy)}{" "}
          ·{" "}
        </span>
      )}
      <span>
        <Time at={header.startedAt ?? header.createdAt} format="full" />
      </span>
      {header.parentRunId && (
        <span>
          {" "}
          · {m.run.rerunOf}{" "}
          <Link to="/runs/$runId" params={{ runId: header.parentRunId }} search={{}}>
            {shortId(header.parentRunId)}
          </Link>
        </span>
      )}
      <Suspense>{ended(header) && <Reruns header={header} before=" · " />}</Suspense>
      <Notes runId={header.runId} />
      {children}
    </p>
  );
}

const NOTES_EVERY_MS = 60_000;

/** The tags of the run, and a link to its notes: a hand-over that nobody sees is none. */
function Notes({ runId }: { runId: string }) {
  const { answer } = useQuery(
    RunNotesDocument,
    { runId },
    ({ runTags, runNotes }) => ({ tags: runTags?.[0]?.tags ?? [], notes: runNotes?.length ?? 0 }),
    { every: NOTES_EVERY_MS },
  );
  if (!answer || answer.tags.length + answer.notes === 0) return null;
  const words = [...answer.tags, ...(answer.notes > 0 ? [m.run.notes(answer.notes)] : [])].join(", ");
  return (
    <span data-testid="notes">
      {" "}
      ·{" "}
      <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "details" })}>
        {words}
      </Link>
    </span>
  );
}

/** How often people retried steps, because a run that completed after retries is not one that went well. */
function Retries({ header }: { header: RunHeader }) {
  const retries = useRunReceipts(header.runId).filter(
    ({ type, application }) => type === "RETRY_STEP" && application === "APPLIED",
  );
  if (retries.length === 0) return null;
  const people = [...new Set(retries.map(({ actor }) => actor))].toSorted();
  return <span data-testid="retries">, {m.run.afterRetries(retries.length, people.join(", "))}</span>;
}

function StepCount({ n, tone, word }: { n: number; tone: string; word: string }) {
  return (
    <span className={css.count} data-tone={tone}>
      {count(n)} {word}
    </span>
  );
}
