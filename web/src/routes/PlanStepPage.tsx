import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { type PastAttemptFieldsFragment, PlanStepDocument, StepNameDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { attemptName, count, fineDuration, shortId } from "../format/format";
import { m } from "../messages";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { Bars } from "../plans/Bars";
import { stepCell } from "../plans/glyphs";
import { PlanLink } from "../plans/links";
import css from "../plans/Plans.module.css";
import page from "../styles/Page.module.css";
import prose from "../styles/Prose.module.css";
import { stepLook } from "../status/look";
import { triesWord } from "../step/stepWords";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { ErrorCode } from "../ui/ErrorCode";
import { Where } from "../ui/Env";
import { Skeleton } from "../ui/Page";
import { StatusBadge } from "../ui/Status";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";
import { NoPlan } from "./PlanPage";

const route = getRouteApi("/plans/$planId/steps/$stepId");
const EVERY_MS = 10_000;
const RUNS = 50;
const MOST_BARS = 60;
/** Attempts in the table before the others are asked for. */
const LISTED = 10;

/** The newest attempts, each with a way to its run and its log. */
function attemptColumns(stepId: string): Column<PastAttemptFieldsFragment>[] {
  return [
    {
      head: m.plans.run,
      main: true,
      cell: ({ runId, logicalAttemptId }) => (
        <>
          <Link to="/runs/$runId" params={{ runId }} search={{ step: stepId, attempt: logicalAttemptId }}>
            {shortId(runId)}
          </Link>
          {logicalAttemptId > 1 && ` ${attemptName(logicalAttemptId)}`}
        </>
      ),
    },
    {
      head: m.plans.result,
      cell: (attempt) => (
        <span>
          <StatusBadge look={stepLook({ ...attempt, pendingRetry: false })} />
        </span>
      ),
    },
    {
      head: m.plans.cause,
      text: true,
      cell: ({ errorCode, errorMessage }) =>
        errorCode !== null && (
          <span>
            {errorMessage} <ErrorCode code={errorCode} />
          </span>
        ),
    },
    {
      head: m.plans.took,
      cell: (attempt) =>
        attempt.durationMs !== null &&
        [fineDuration(attempt.durationMs), triesWord(attempt)].filter((part) => part !== null).join(" "),
    },
    {
      head: m.plans.startedAt,
      cell: ({ startedAt }) => startedAt !== null && <Time at={instant(startedAt)} format="full" />,
    },
    { head: m.plans.version, wide: true, cell: ({ planVersion }) => planVersion },
    {
      head: m.plans.log,
      cell: ({ runId, logicalAttemptId }) => <LogLink stepId={stepId} {...{ runId, logicalAttemptId }} />,
    },
  ];
}

function LogLink({ stepId, runId, logicalAttemptId }: { stepId: string; runId: string; logicalAttemptId: number }) {
  return (
    <Link
      to="/runs/$runId"
      params={{ runId }}
      search={{ step: stepId, attempt: logicalAttemptId, tab: "log" }}
      aria-label={`${m.plans.log} ${shortId(runId)}`}
    >
      {m.plans.log}
    </Link>
  );
}

export function PlanStepPage() {
  const { planId, stepId } = route.useParams();
  const { project = "", env = "" } = route.useSearch();
  const [all, setAll] = useState(false);
  const {
    answer: step,
    error,
    again,
    asOf,
  } = useQuery(
    PlanStepDocument,
    { projectId: project, environmentId: env, planId, stepId, runs: RUNS },
    ({ planStep }) => planStep,
    { every: EVERY_MS },
  );
  const newest = step?.attempts[0]?.runId;
  const name =
    useQuery(
      StepNameDocument,
      newest === undefined ? null : { runId: newest, stepId },
      ({ run }) => run?.step?.name ?? null,
    ).answer ?? null;
  useDocumentStatus(`${name ?? stepId} · ${planId}`);
  if (error && !step) return <Problem error={error} retry={again} />;
  if (step === undefined) return <Skeleton rows={8} label={m.sync.LOADING} />;
  if (step === null) return <NoPlan text={m.plans.stepNone} />;
  const columns: Column<(typeof step.failures)[number]>[] = [
    { head: m.plans.code, main: true, cell: ({ code }) => <ErrorCode code={code} /> },
    { head: m.plans.times, cell: (failure) => count(failure.count) },
    {
      head: m.plans.lastTime,
      cell: ({ last }) => <Attempt stepId={stepId} attempt={last} />,
    },
    { head: m.plans.message, text: true, cell: ({ message }) => message && <Message text={message} /> },
  ];
  return (
    <div className={page.measure}>
      <PageHead title={name ?? stepId} asOf={asOf} refresh={again} repeated>
        {name !== null && <code title={m.step.facts.id}>{stepId}</code>}
        <span>
          {m.plans.stepOf} <PlanLink of={{ projectId: project, environmentId: env, planId }}>{planId}</PlanLink>{" "}
          <Where project={project} environment={env} />
        </span>
      </PageHead>
      {error && <Problem error={error} retry={again} />}
      <dl className={css.facts}>
        <div>
          <dt>{m.plans.rate}</dt>
          <dd>
            {step.ran > 0 && m.plans.percent(step.succeeded / step.ran)}{" "}
            <span className={css.quiet}>{m.plans.ran(step.succeeded, step.ran, step.countedRuns)}</span>
          </dd>
        </div>
        {step.p90Ms !== null && (
          <div>
            <dt>{m.plans.p90}</dt>
            <dd>{fineDuration(step.p90Ms)}</dd>
          </div>
        )}
        <div>
          <dt>{m.plans.lastGreen}</dt>
          <dd>{step.lastGreen ? <Attempt stepId={stepId} attempt={step.lastGreen} /> : m.plans.neverGreen}</dd>
        </div>
        {step.lastGreen && (
          <div>
            <dt>{m.plans.retriesHead}</dt>
            <dd>{m.plans.flaky(step.flaky)}</dd>
          </div>
        )}
      </dl>
      <section className={css.section}>
        <Bars
          label={m.plans.attempts(Math.min(MOST_BARS, step.attempts.length))}
          medianMs={step.medianMs}
          bars={step.attempts
            .slice(0, MOST_BARS)
            .toReversed()
            .map((attempt) => {
              const look = stepCell(attempt);
              const took = attempt.durationMs === null ? "" : fineDuration(attempt.durationMs);
              return {
                key: `${attempt.runId} ${attempt.logicalAttemptId}`,
                runId: attempt.runId,
                step: { step: stepId, attempt: attempt.logicalAttemptId },
                ms: attempt.durationMs,
                look,
                name: `${m.plans.cell(look.word, took, shortId(attempt.runId))}, ${attemptName(attempt.logicalAttemptId)}`,
              };
            })}
        />
      </section>
      <section className={css.section}>
        <h2>{m.plans.attemptsHead}</h2>
        <Table
          label={m.plans.attemptsHead}
          columns={attemptColumns(stepId)}
          rows={all ? step.attempts : step.attempts.slice(0, LISTED)}
          rowKey={({ runId, logicalAttemptId }) => `${runId} ${logicalAttemptId}`}
        />
        {step.attempts.length > LISTED && (
          <p className={css.quiet}>
            <Button kind="quiet" expanded={all} onClick={() => setAll(!all)}>
              {all ? m.attention.fewer : m.plans.allAttempts(step.attempts.length)}
            </Button>
          </p>
        )}
      </section>
      <section className={css.section}>
        <h2>{m.plans.failures}</h2>
        {step.failures.length === 0 ? (
          <p className={css.quiet}>{m.plans.neverFailed}</p>
        ) : (
          <Table label={m.plans.failures} columns={columns} rows={step.failures} rowKey={({ code }) => code} />
        )}
      </section>
    </div>
  );
}

/** The first lines of the attempt's message; the rest on demand. */
function Message({ text }: { text: string }) {
  const said = text.trim();
  const [first = ""] = said.split("\n", 1);
  if (first.length === said.length) return first;
  return (
    <details>
      <summary>{first}</summary>
      <pre className={prose.said}>{said}</pre>
    </details>
  );
}

/** An attempt: its run, when it ended, and its log. */
function Attempt({ stepId, attempt }: { stepId: string; attempt: PastAttemptFieldsFragment }) {
  const { runId, logicalAttemptId, completedAt } = attempt;
  return (
    <span>
      <Link to="/runs/$runId" params={{ runId }} search={{ step: stepId, attempt: logicalAttemptId }}>
        {shortId(runId)}
      </Link>
      {completedAt !== null && (
        <>
          {" "}
          <Time at={instant(completedAt)} />
        </>
      )}{" "}
      · <LogLink stepId={stepId} runId={runId} logicalAttemptId={logicalAttemptId} />
    </span>
  );
}
