import { X } from "lucide-react";
import { Suspense, useEffect, useRef } from "react";
import { ActionButton } from "../actions/ActionButton";
import { useRunActions } from "../actions/context";
import { PollerSeenDocument } from "../api/gen/graphql";
import { instant, type Step } from "../api/model";
import { useQuery } from "../api/useQuery";
import { Skeleton } from "../ui/Page";
import { m } from "../messages";
import { StepLink } from "../plans/links";
import { useHeader, useRunState, useRunStore, useStep } from "../runstate/context";
import { isDbt } from "./dbt";
import { useMedians } from "./medians";
import { RESET_STEP_PARAMS, STEP_TABS, type StepTab } from "../address/views";
import { Button } from "../ui/Button";
import { duration, ticking } from "../format/format";
import { StepTitle } from "../runstate/stepTitle";
import { stepLook } from "../status/look";
import { lazyPart } from "../ui/lazyPart";
import { Notice } from "../ui/Page";
import { StatusBadge } from "../ui/Status";
import { useTick } from "../ui/Time";
import { StepError } from "./StepError";
import { Attempts } from "./StepAttempts";
import type { StepMove, StepPlace } from "./stepPlace";
import { StepManual } from "./StepManual";
import { awaitedQueue, pollerWords, stepTook, triesWord, waitWords } from "./stepWords";
import tabs from "../styles/Tabs.module.css";
import { lookWithTry, tryWords, useNextTry } from "../waits/retries";
import css from "./StepPanel.module.css";

const LogView = lazyPart(() => import("../logs/LogView").then((part) => part.LogView));
const StepArtifacts = lazyPart(() => import("./StepFacts").then((part) => part.StepArtifacts));
const StepOutput = lazyPart(() => import("./StepFacts").then((part) => part.StepOutput));
const StepTiming = lazyPart(() => import("./StepFacts").then((part) => part.StepTiming));
const StepTries = lazyPart(() => import("./StepTries").then((part) => part.StepTries));
const StepWorker = lazyPart(() => import("./StepFacts").then((part) => part.StepWorker));
const StepInputs = lazyPart(() => import("./StepInputs").then((part) => part.default));
const StepModels = lazyPart(() => import("./StepModels").then((part) => part.default));

const STACKED = "(max-width: 960px)";
/** The types of steps that run no program, and so print nothing. */
const SILENT: readonly string[] = ["SLEEP", "MANUAL", "NOOP"];

/** The tabs of a step that have content for the shown attempt. */
export function tabsOf(step: Step, shownId: number, latest: number): readonly StepTab[] {
  const shown = step.attempts.find((other) => other.logicalAttemptId === shownId);
  const current = shownId === latest;
  const has: Partial<Record<StepTab, boolean>> = {
    error: (shown?.error ?? null) !== null,
    log: !SILENT.includes(step.type),
    models: isDbt(step.type),
    output: current && step.result !== null,
    artifacts: current && step.artifacts.length > 0,
    timing: step.attempts.length > 0,
  };
  return STEP_TABS.filter((tab) => has[tab] ?? true);
}

interface StepPanelProps {
  runId: string;
  stepId: string;
  place: StepPlace;
  open: (to: StepMove) => void;
  close: () => void;
}

export function StepPanel({ runId, stepId, place, open, close }: StepPanelProps) {
  const step = useStep(stepId);
  const panel = useRef<HTMLElement>(null);
  const known = step !== undefined;
  const latest = step?.attempts.at(-1)?.logicalAttemptId ?? step?.logicalAttemptId ?? 0;
  // A step that was skipped after it failed opens at the failed attempt, which has the log.
  const ran = step?.status === "SKIPPED" ? step.attempts.findLast(({ startedAt }) => startedAt !== null) : undefined;
  const shownId = place.attempt ?? ran?.logicalAttemptId ?? latest;
  useLineOf(stepId, shownId, place, open);
  const { full } = place;
  useEffect(() => {
    if (!full) return;
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      open({ full: undefined });
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [full, open]);
  useEffect(() => {
    // On a narrow screen the panel is below the graph, so it must be scrolled to.
    if (known && matchMedia(STACKED).matches) panel.current?.scrollIntoView({ block: "start" });
  }, [stepId, known]);
  if (!step) {
    return (
      <section className={css.panel} aria-label={stepId}>
        <Notice title={m.step.gone(stepId)}>
          <Button onClick={close}>{m.step.close}</Button>
        </Notice>
      </section>
    );
  }
  const shownTabs = tabsOf(step, shownId, latest);
  const tab = shownTabs.includes(place.tab) ? place.tab : (shownTabs[0] ?? place.tab);
  return (
    <section
      ref={panel}
      className={css.panel}
      data-full={full || undefined}
      aria-labelledby="step-title"
      data-testid="step-panel"
    >
      <div className={css.head}>
        <h2 id="step-title" className={css.title} title={step.stepId}>
          <StepTitle stepId={step.stepId} />
        </h2>
        <History step={step} />
        <StepButtons step={step} />
        <Button kind="quiet" label={m.step.close} onClick={close}>
          <X size={16} aria-hidden="true" />
        </Button>
      </div>
      <Facts runId={runId} step={step} />
      <StepManual stepId={stepId} />
      {step.attempts.length > 1 && (
        <Attempts
          attempts={step.attempts}
          shown={shownId}
          latest={latest}
          choose={(id) => open({ ...RESET_STEP_PARAMS, attempt: id === latest && !ran ? undefined : id })}
        />
      )}
      <div className={`${tabs.tabs} ${css.tabs}`} role="group" aria-label={m.step.parts(step.stepId)}>
        {shownTabs.map((other) => (
          <button
            key={other}
            type="button"
            className={tabs.tab}
            aria-pressed={other === tab}
            onClick={() => open({ tab: other })}
          >
            {m.step.tabs[other]}
          </button>
        ))}
      </div>
      {/* Without something in its place the tabs would take the height of the panel. */}
      <Suspense fallback={<Skeleton rows={4} label={m.sync.LOADING} />}>
        <Part runId={runId} step={step} shownId={shownId} latest={latest} place={{ ...place, tab }} open={open} />
      </Suspense>
    </section>
  );
}

/** Clears the line of the address when a later attempt replaces the shown one, because a line belongs to one log. */
function useLineOf(stepId: string, shownId: number, { attempt, line }: StepPlace, open: (to: StepMove) => void): void {
  const was = useRef({ stepId, shownId });
  useEffect(() => {
    const other = was.current.stepId === stepId && was.current.shownId !== shownId && was.current.shownId > 0;
    was.current = { stepId, shownId };
    // A link to another attempt has its own line.
    if (other && attempt === null && line !== null) open({ line: undefined });
  }, [stepId, shownId, attempt, line, open]);
}

function StepButtons({ step }: { step: Step }) {
  const { actions, menu } = useRunActions();
  const cause = useRunState((store) => store.header()?.rootCause?.stepId === step.stepId);
  return (
    <span className={css.buttons}>
      {/* Skipping starts other steps without the outputs of this one, so it is only in the menu. */}
      {step.status === "FAILED" && (
        <ActionButton action="RETRY_STEP" stepId={step.stepId} shortcut={cause ? undefined : "r"} />
      )}
      {actions?.task(step.stepId) && <ActionButton action="COMPLETE_MANUAL_STEP" stepId={step.stepId} kind="primary" />}
      <Button kind="quiet" label={m.menu.ofStep(step.stepId)} onClick={menu}>
        …
      </Button>
    </span>
  );
}

function Facts({ runId, step }: { runId: string; step: Step }) {
  const store = useRunStore();
  useTick(1_000, step.status === "RUNNING");
  const blocked = useRunState(({ header }) =>
    header()?.rootCause?.stepId === step.stepId ? (header()?.rootCause?.blockedSteps ?? 0) : 0,
  );
  const took = stepTook(step, store);
  const { actions } = useRunActions();
  // The box of a manual step says what it waits for.
  const next = useNextTry(step.stepId);
  const wait = actions?.task(step.stepId) ? null : next === null ? waitWords(step, store) : tryWords(next, store.now());
  const queue = awaitedQueue(step, store);
  return (
    <>
      <div className={css.facts}>
        <StatusBadge look={lookWithTry(stepLook(step), next)} />
        <span>{step.type}</span>
        {took && <span>{[took, triesWord(step.attempts.at(-1))].filter((part) => part !== null).join(" ")}</span>}
        <Median runId={runId} stepId={step.stepId} />
        {blocked > 0 && <span>{m.run.blocks(blocked)}</span>}
      </div>
      {wait && (
        <p className={css.wait}>
          {queue === null ? wait : <WorkerWait words={wait} runId={runId} stepId={step.stepId} />}
        </p>
      )}
    </>
  );
}

/** The interval at which servers learn when a worker was last seen. */
const POLLER_EVERY_MS = 15_000;

/**
 * What a step waits for that nothing in the log holds: a worker, with the time when one was last seen, or what only the
 * engine knows. It is queried, because the stream is silent while the run stands still.
 */
function WorkerWait({ words, runId, stepId }: { words: string; runId: string; stepId: string }) {
  const store = useRunStore();
  const wait = useQuery(PollerSeenDocument, { runId, stepId }, ({ run }) => run?.step?.wait ?? null, {
    every: POLLER_EVERY_MS,
  }).answer;
  if (wait?.kind === "QUOTA" || wait?.kind === "JOURNAL" || wait?.kind === "STORE") {
    const left = wait.until === null ? 0 : instant(wait.until) - store.now();
    return m.step.held(wait.kind, left > 0 ? ticking(left) : null);
  }
  if (!wait?.taskQueue) return words;
  return words + pollerWords(wait.pollerSeenAt === null ? null : instant(wait.pollerSeenAt), store.now());
}

/** The usual duration of the step in earlier runs. */
function Median({ runId, stepId }: { runId: string; stepId: string }) {
  const median = useMedians({ runId })?.get(stepId);
  return median === undefined ? null : <span>{m.step.median(duration(median))}</span>;
}

interface PartProps {
  runId: string;
  step: Step;
  shownId: number;
  latest: number;
  place: StepPlace;
  open: (to: StepMove) => void;
}

function Part({ runId, step, shownId, latest, place, open }: PartProps) {
  const shown = step.attempts.find((other) => other.logicalAttemptId === shownId);
  switch (place.tab) {
    case "log": {
      if (!shown || shown.startedAt === null) return <p className={css.quiet}>{m.step.noAttempt}</p>;
      const of = { runId, stepId: step.stepId, attempt: shown.logicalAttemptId };
      return (
        <LogView
          key={`${step.stepId}/${of.attempt}`}
          of={of}
          running={shown.status === "RUNNING"}
          failed={shown.status === "FAILED"}
          line={place.line}
          find={place.q}
          full={place.full}
          open={open}
        />
      );
    }
    case "models":
      return (
        <StepModels
          key={`${step.stepId}/${shownId}/${shown?.status}`}
          runId={runId}
          stepId={step.stepId}
          attempt={shownId}
          statuses={place.nodes}
          sql={place.sql}
          open={open}
        />
      );
    case "inputs":
      return (
        <StepInputs
          key={`${step.stepId}/${shownId}/${shown?.startedSeq ?? 0}`}
          runId={runId}
          stepId={step.stepId}
          attempt={shownId > 0 ? shownId : null}
        />
      );
    case "error":
      return <StepError error={shown?.error ?? null} />;
    case "output":
      return <StepOutput step={step} current={shownId === latest} />;
    case "artifacts":
      return <StepArtifacts runId={runId} artifacts={shownId === latest ? step.artifacts : []} />;
    case "timing":
      return (
        <div className={css.body}>
          <StepTiming step={step} />
          {shown && (
            <StepTries
              key={`${step.stepId}/${shownId}/${shown.status}`}
              runId={runId}
              stepId={step.stepId}
              attempt={shownId}
            />
          )}
        </div>
      );
    case "worker":
      return <StepWorker step={step} />;
  }
}

/** Leads to the step in all runs of its plan. */
function History({ step }: { step: Step }) {
  const header = useHeader();
  if (!header) return null;
  return (
    <span className={css.quiet}>
      <StepLink
        of={{ ...header, planId: header.plan.planId }}
        stepId={step.stepId}
        label={m.plans.historyOf(step.name ?? step.stepId)}
      >
        {m.plans.history}
      </StepLink>
    </span>
  );
}
