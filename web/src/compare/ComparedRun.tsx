import { Link } from "@tanstack/react-router";
import type { ComparedRunFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { duration, shortId } from "../format/format";
import { m } from "../messages";
import { PlanLink } from "../plans/links";
import { runLook } from "../status/look";
import { Where } from "../ui/Env";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";
import css from "./Compare.module.css";

/** A shorter wait explains nothing. */
const SHOWN_WAIT_MS = 1_000;

interface ComparedRunProps {
  title: string;
  run: ComparedRunFieldsFragment;
  /** The other run, with its title. */
  other: { title: string; runId: string };
  waitedMs: number;
  asOf: number;
}

/** One of the two runs: how it stands, and how long it took or takes. */
export function ComparedRun({ title, run, other, waitedMs, asOf }: ComparedRunProps) {
  const started = run.startedAt === null ? null : instant(run.startedAt);
  return (
    <section className={css.run} aria-label={title}>
      <h2>
        {title}
        {run.parentRunId === other.runId && <span className={css.quiet}> · {m.compare.rerunOf(other.title)}</span>}
      </h2>
      <p className={css.line}>
        <StatusBadge look={runLook({ ...run, pause: null })} />
        <Link to="/runs/$runId" params={{ runId: run.runId }} search={{}}>
          {shortId(run.runId)}
        </Link>
        <PlanLink of={{ projectId: run.projectId, environmentId: run.environmentId, planId: run.plan.planId }}>
          {run.plan.planId}@{run.plan.planVersion}
        </PlanLink>
        <Where project={run.projectId} environment={run.environmentId} />
      </p>
      <p className={css.quiet}>
        {m.compare.started} <Time at={instant(run.createdAt)} />
        {run.totalDurationMs !== null
          ? ` · ${m.compare.took} ${duration(run.totalDurationMs)}`
          : ` · ${started === null ? m.compare.notStarted : `${m.compare.running} ${duration(asOf - started)}`}`}
        {waitedMs >= SHOWN_WAIT_MS && `, ${m.compare.waited(duration(waitedMs))}`}
        {run.triggeredBy !== null && ` · ${m.compare.starter} ${run.triggeredBy}`}
      </p>
    </section>
  );
}
