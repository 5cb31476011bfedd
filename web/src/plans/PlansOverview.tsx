import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { PlansDocument, type PlanSummaryFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useConnection } from "../api/useConnection";
import { duration } from "../format/format";
import { m } from "../messages";
import { List } from "../page/List";
import { useCan } from "../session/useCan";
import { ended } from "../status/look";
import { Button } from "../ui/Button";
import { Where } from "../ui/Env";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";
import { PlanLink } from "./links";
import { looksOf, runCell } from "./glyphs";
import { GlyphLegend, RunCells } from "./RunCells";
import form from "../styles/Form.module.css";
import css from "./Plans.module.css";

const EVERY_MS = 10_000;
const MUCH = 1.25;
/** The time between steps, which is no wait of people, is shorter. */
const SHOWN_WAIT_MS = 10_000;

export interface PlansFilter {
  projectId?: string | undefined;
  environmentId?: string | undefined;
  text?: string | undefined;
}

const columns: readonly Column<PlanSummaryFieldsFragment>[] = [
  { head: m.plans.plan, main: true, text: true, cell: (plan) => <PlanLink of={plan}>{plan.planId}</PlanLink> },
  {
    head: m.plans.where,
    cell: (plan) => <Where project={plan.projectId} environment={plan.environmentId} />,
  },
  // Beside the name, so that an ill plan is found without reading its cells.
  { head: m.plans.next, cell: (plan) => <State plan={plan} /> },
  { head: m.plans.lastRuns, cell: (plan) => <RunCells runs={plan.runs} /> },
  { head: m.plans.rate, cell: (plan) => <Rate plan={plan} /> },
  { head: m.plans.typical, cell: (plan) => <Typical plan={plan} /> },
  { head: m.plans.lastRun, wide: true, cell: (plan) => <Time at={instant(plan.lastRunAt)} /> },
];

/** The list of plans with their last runs, the plan with the newest run first. */
export function usePlans({ projectId, environmentId, text }: PlansFilter) {
  return useConnection(
    PlansDocument,
    { projectId: projectId ?? null, environmentId: environmentId ?? null, text: text ?? null },
    ({ plans }) => plans,
    { size: 20, every: EVERY_MS },
  );
}

interface PlansOverviewProps {
  filter?: PlansFilter;
  /** Stands above the list. */
  title?: ReactNode;
  /** Replaces the title and the list where no plan has run. */
  none?: ReactNode;
}

/** Each plan with its last 30 runs. It reads its own data, so that other pages can show it. */
export function PlansOverview({ filter = {}, title, none }: PlansOverviewProps) {
  const pages = usePlans(filter);
  if (none !== undefined && pages.rows?.length === 0) return none;
  return (
    <>
      {title}
      <PlansTable pages={pages} searched={filter.text !== undefined} />
    </>
  );
}

/** Whether a person must act, or the newest run failed. */
function needsSomebody({ next }: PlanSummaryFieldsFragment): boolean {
  return next !== "START" && next !== "WATCH";
}

interface PlansTableProps {
  pages: ReturnType<typeof usePlans>;
  searched: boolean;
  /** Offers to leave out the plans that need nobody. */
  narrowed?: boolean;
}

export function PlansTable({ pages, searched, narrowed = false }: PlansTableProps) {
  const [only, setOnly] = useState(false);
  const ill = pages.rows?.filter(needsSomebody) ?? [];
  return (
    <>
      {narrowed && ill.length > 0 && (
        <p className={form.row}>
          <Button pressed={only} onClick={() => setOnly(!only)}>
            {m.plans.needSomebody(ill.length, pages.hasMore)}
          </Button>
        </p>
      )}
      <PlansList pages={only ? { ...pages, rows: ill } : pages} searched={searched} />
      <GlyphLegend looks={looksOf((pages.rows ?? []).flatMap(({ runs }) => runs).map(runCell))} />
    </>
  );
}

function PlansList({ pages, searched }: { pages: ReturnType<typeof usePlans>; searched: boolean }) {
  const mayNotStart = useCan("START");
  return (
    <List
      label={m.plans.title}
      pages={pages}
      columns={columns}
      rowKey={(plan) => `${plan.projectId}/${plan.environmentId}/${plan.planId}`}
      empty={
        <>
          <p>{searched ? m.plans.noMatch : m.plans.empty}</p>
          {!searched && mayNotStart === null && <Link to="/start">{m.plans.start}</Link>}
        </>
      }
    />
  );
}

/** How a plan stands: by the next action, and by its newest runs. */
type Health = "bad" | "warn" | undefined;

function healthOf(plan: PlanSummaryFieldsFragment): Health {
  if (plan.next === "RERUN") return "bad";
  return needsSomebody(plan) || failedBefore(plan) ? "warn" : undefined;
}

/** Whether a run is on its way after one that failed: nobody knows yet whether the plan is well again. */
function failedBefore({ next, runs }: PlanSummaryFieldsFragment): boolean {
  return next === "WATCH" && runs.find((run) => ended(run))?.status === "FAILED";
}

/** The next action, with a mark where a plan is ill, and what its runs do now. */
function State({ plan }: { plan: PlanSummaryFieldsFragment }) {
  const health = healthOf(plan);
  const now = [
    ...(plan.open > 0 ? [m.plans.openRuns(plan.open, plan.waiting)] : []),
    ...(failedBefore(plan) ? [m.plans.failedBefore] : []),
  ].join(", ");
  return (
    <span className={health && form.tone} data-tone={health}>
      {health && <span aria-hidden="true">{health === "bad" ? "✕" : "◆"} </span>}
      <Next plan={plan} />
      {now !== "" && <span className={css.quiet}> · {now}</span>}
    </span>
  );
}

export function Rate({ plan }: { plan: Pick<PlanSummaryFieldsFragment, "successRate" | "succeeded" | "ended"> }) {
  if (plan.successRate === null) return null;
  return <span title={m.plans.rateOf(plan.succeeded, plan.ended)}>{m.plans.percent(plan.successRate)}</span>;
}

/**
 * The median time of work, the whole duration where waits are much of it, and whether the newest runs took clearly
 * longer or shorter.
 */
export function Typical({
  plan,
}: {
  plan: Pick<PlanSummaryFieldsFragment, "medianMs" | "medianWorkMs" | "recentMedianWorkMs">;
}) {
  const { medianMs, medianWorkMs, recentMedianWorkMs: recent } = plan;
  if (medianWorkMs === null) return null;
  const trend =
    recent === null
      ? null
      : recent > medianWorkMs * MUCH
        ? m.plans.slower
        : recent * MUCH < medianWorkMs
          ? m.plans.faster
          : null;
  return (
    <span title={[m.plans.typicalMeans, ...(recent === null ? [] : [m.plans.recent(duration(recent))])].join("\n")}>
      {duration(medianWorkMs)}
      {medianMs !== null && medianMs - medianWorkMs > Math.max(SHOWN_WAIT_MS, medianWorkMs * (MUCH - 1)) && (
        <span className={css.quiet}> · {m.plans.withWaits(duration(medianMs))}</span>
      )}
      {trend !== null && <span className={css.quiet}> · {trend}</span>}
    </span>
  );
}

/** The next action, as a link to where one does it. */
export function Next({ plan }: { plan: PlanSummaryFieldsFragment }) {
  const newest = plan.runs[0];
  const refused = useCan("START");
  if (plan.nextRunId !== null) {
    return (
      <Link to="/runs/$runId" params={{ runId: plan.nextRunId }} search={{}} data-urgent={plan.next}>
        {m.plans.nexts[plan.next]}
      </Link>
    );
  }
  if (!newest) return null;
  // A viewer without the right to start gets a link to the newest run.
  return refused === null ? (
    <StartLink plan={plan} />
  ) : (
    <Link to="/runs/$runId" params={{ runId: newest.runId }} search={{}}>
      {m.plans.openLast}
    </Link>
  );
}

/** Opens the form of a start, filled in from the newest run of the plan. */
export function StartLink({ plan }: { plan: PlanSummaryFieldsFragment }) {
  return (
    <Link to="/start" search={{ from: plan.runs[0]?.runId, project: plan.projectId, env: plan.environmentId }}>
      {m.plans.start}
    </Link>
  );
}
