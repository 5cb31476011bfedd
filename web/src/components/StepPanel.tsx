import { X } from "lucide-react";
import { useEffect, useRef } from "react";
import { ActionButton } from "../actions/ActionButton";
import type { Attempt, Step } from "../api/model";
import { LogView } from "../logs/LogView";
import { m } from "../messages";
import { useRunStore, useStep } from "../runs/context";
import { STEP_TABS, type StepTab } from "../runs/views";
import { Button } from "../ui/Button";
import { attemptName, bytes, duration } from "../ui/format";
import { stepLook } from "../ui/look";
import { Notice } from "../ui/Page";
import { StatusBadge, StatusIcon } from "../ui/Status";
import { Time, useTick } from "../ui/Time";
import { stepTook, waitWords } from "./stepWords";
import css from "./StepPanel.module.css";

const STACKED = "(max-width: 960px)";

interface StepPanelProps {
  runId: string;
  stepId: string;
  /** The attempt to show; the latest when null. */
  attempt: number | null;
  tab: StepTab;
  open: (to: { attempt?: number | undefined; tab?: StepTab }) => void;
  close: () => void;
}

export function StepPanel({ runId, stepId, attempt, tab, open, close }: StepPanelProps) {
  const store = useRunStore();
  const step = useStep(stepId);
  const panel = useRef<HTMLElement>(null);
  useTick(1_000, step?.status === "RUNNING");
  const known = step !== undefined;
  useEffect(() => {
    // Beside the picture the panel is in sight; below it, on a narrow screen, it must be brought there.
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
  const latest = step.attempts.at(-1)?.logicalAttemptId ?? step.logicalAttemptId;
  const shownId = attempt ?? latest;
  const shown = step.attempts.find((other) => other.logicalAttemptId === shownId);
  const wait = waitWords(step, store);
  return (
    <section ref={panel} className={css.panel} aria-labelledby="step-title" data-testid="step-panel">
      <div className={css.head}>
        <h2 id="step-title" className={css.title}>
          {step.name ?? step.stepId}
        </h2>
        <Button kind="quiet" label={m.step.close} onClick={close}>
          <X size={16} aria-hidden="true" />
        </Button>
      </div>
      <div className={css.facts}>
        <StatusBadge look={stepLook(step)} />
        <span>{step.type}</span>
        {stepTook(step, store) && <span>{stepTook(step, store)}</span>}
        {step.status === "FAILED" && <ActionButton action="RETRY_STEP" stepId={stepId} />}
      </div>
      {wait && <p className={css.wait}>{wait}</p>}
      {step.attempts.length > 0 && (
        <div className={css.attempts} role="group" aria-label={m.step.attempts}>
          {step.attempts.map((other) => (
            <AttemptButton
              key={other.logicalAttemptId}
              attempt={other}
              chosen={other.logicalAttemptId === shownId}
              latest={other.logicalAttemptId === latest}
              choose={() => open({ attempt: other.logicalAttemptId === latest ? undefined : other.logicalAttemptId })}
            />
          ))}
        </div>
      )}
      <div className={css.tabs} role="group" aria-label={step.stepId}>
        {STEP_TABS.map((other) => (
          <button key={other} type="button" className={css.tab} aria-pressed={other === tab} onClick={() => open({ tab: other })}>
            {m.step.tabs[other]}
          </button>
        ))}
      </div>
      <StepBody runId={runId} step={step} shown={shown} latest={latest} tab={tab} />
    </section>
  );
}

function AttemptButton({ attempt, chosen, latest, choose }: { attempt: Attempt; chosen: boolean; latest: boolean; choose: () => void }) {
  const look = stepLook({ ...attempt, pendingRetry: false });
  const superseded = !latest && attempt.status === "FAILED";
  return (
    <button
      type="button"
      className={css.attempt}
      aria-pressed={chosen}
      data-superseded={superseded || undefined}
      title={superseded ? m.step.superseded : undefined}
      onClick={choose}
    >
      <StatusIcon look={superseded ? { ...look, tone: "skipped" } : look} size={14} />
      {attemptName(attempt.logicalAttemptId)}
      {attempt.startedAt !== null && (
        <span className={css.quiet}>
          <Time at={attempt.startedAt} format="clock" />
        </span>
      )}
      {attempt.durationMs !== null && <span className={css.quiet}>{duration(attempt.durationMs)}</span>}
      {attempt.engineAttemptId > 1 && <span className={css.quiet}>engine try {attempt.engineAttemptId}</span>}
    </button>
  );
}

interface StepBodyProps {
  runId: string;
  step: Step;
  shown: Attempt | undefined;
  latest: number;
  tab: StepTab;
}

function StepBody({ runId, step, shown, latest, tab }: StepBodyProps) {
  if (tab === "log") {
    if (!shown || shown.startedAt === null) return <p className={css.quiet}>{m.step.noAttempt}</p>;
    const id = shown.logicalAttemptId;
    return (
      <LogView key={`${step.stepId}/${id}`} runId={runId} stepId={step.stepId} attempt={id} running={shown.status === "RUNNING"} fromEnd={shown.status === "FAILED"} />
    );
  }
  if (tab === "error") {
    const error = shown?.error ?? null;
    if (!error) return <p className={css.quiet}>{m.step.noError}</p>;
    return (
      <div className={css.body}>
        <p>
          <code>{error.code}</code> · {error.category ?? "UNKNOWN"} · {error.retryable ? m.run.retryable : m.run.notRetryable}
          {error.source && ` · ${error.source}`}
        </p>
        {error.message && <pre className={css.pre}>{error.message}</pre>}
      </div>
    );
  }
  if (tab === "output") return <Output step={step} current={shown?.logicalAttemptId === latest} />;
  return (
    <dl className={css.about}>
      <dt>Step id</dt>
      <dd>
        <code>{step.stepId}</code>
      </dd>
      <dt>Waits for</dt>
      <dd>{step.dependsOn.length === 0 ? "nothing" : step.dependsOn.join(", ")}</dd>
      {step.group && (
        <>
          <dt>Group</dt>
          <dd>{step.group}</dd>
        </>
      )}
      {step.taskQueue && (
        <>
          <dt>Task queue</dt>
          <dd>
            {step.taskQueue} {step.resourceClass && `(${step.resourceClass})`}
          </dd>
        </>
      )}
      {shown?.startedSeq && (
        <>
          <dt>Started</dt>
          <dd>
            seq {shown.startedSeq}
            {shown.startedAt !== null && (
              <>
                , <Time at={shown.startedAt} format="full" />
              </>
            )}
          </dd>
        </>
      )}
      {shown?.endedSeq && (
        <>
          <dt>Ended</dt>
          <dd>
            seq {shown.endedSeq}
            {shown.completedAt !== null && (
              <>
                , <Time at={shown.completedAt} format="full" />
              </>
            )}
          </dd>
        </>
      )}
      <dt>Last changed</dt>
      <dd>seq {step.changedSeq}</dd>
    </dl>
  );
}

/** What the step returned: the result of the latest attempt and its artifacts. */
function Output({ step, current }: { step: Step; current: boolean }) {
  const empty = step.result === null && step.artifacts.length === 0;
  if (empty || !current) return <p className={css.quiet}>{m.step.noOutput}</p>;
  return (
    <div className={css.body}>
      {step.result !== null && <pre className={css.pre}>{JSON.stringify(step.result, null, 2)}</pre>}
      {step.artifacts.length > 0 && (
        <ul className={css.artifacts}>
          {step.artifacts.map((artifact) => (
            <li key={artifact.uri}>
              <strong>{artifact.kind}</strong> {artifact.sizeBytes !== null && bytes(artifact.sizeBytes)}
              <br />
              <code className={css.quiet}>{artifact.uri}</code>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
