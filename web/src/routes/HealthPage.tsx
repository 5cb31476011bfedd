import { Link } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import {
  CapabilitiesDocument,
  type CapabilitiesQuery,
  DestinationsDocument,
  HealthDocument,
  type HealthQuery,
  type HealthStatus,
  ServiceDocument,
  WorkerDrainsDocument,
  type WorkerDrainsQuery,
} from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { type Destination, getsNothing } from "../deliveries/destination";
import { HealthHistory } from "../health/HealthHistory";
import { m } from "../messages";
import { doctor } from "../messages/doctor";
import { health as healthMessages } from "../messages/health";
import { type Notice, notices } from "../shell/service";
import { useCan } from "../session/useCan";
import { useDocumentStatus } from "../ui/documentStatus";
import css from "../styles/Form.module.css";
import { dateTime, duration } from "../format/format";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { lazyPart } from "../ui/lazyPart";
import { Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";

const InstallationDoctor = lazyPart(() =>
  import("../doctor/InstallationDoctor").then((part) => part.InstallationDoctor),
);

type Check = HealthQuery["health"]["checks"][number];
/** A part of the table. A word replaces that of the status. */
type Part = Pick<Check, "name" | "status" | "message" | "latencyMs" | "configured"> & { word?: string };
type Capability = CapabilitiesQuery["capabilities"][number];
const EVERY_MS = 5_000;
const DRAINS_EVERY_MS = 10_000;
const TONES = { HEALTHY: "good", DEGRADED: "warn", UNHEALTHY: "bad" } as const satisfies Record<HealthStatus, string>;
const SIGNS = { HEALTHY: "●", DEGRADED: "◐", UNHEALTHY: "✕" } as const satisfies Record<HealthStatus, string>;

type Halt = keyof typeof healthMessages.halted;

/** `halt` is why no new run starts, if so: a healthy part does not promise then what the banner denies. */
const checksDuring = (halt: Halt | undefined): Column<Part>[] => [
  { head: healthMessages.part, main: true, cell: (check) => healthMessages.parts[check.name] ?? check.name },
  {
    head: healthMessages.status,
    cell: (check) =>
      check.configured ? (
        <Word status={check.status} word={check.word} />
      ) : (
        <span className={css.tone}>
          <span aria-hidden="true">○</span> {healthMessages.notConfigured}
        </span>
      ),
  },
  { head: healthMessages.latency, cell: (check) => (check.latencyMs === null ? null : duration(check.latencyMs)) },
  { head: healthMessages.means, text: true, cell: (check) => check.message ?? meaning(check.name, halt) },
];
const meaning = (part: string, halt: Halt | undefined): string | undefined =>
  (halt && healthMessages.halted[halt].fine[part]) ?? healthMessages.fine[part];

/** Whether new runs start, which no check of a part says: the first row, because it is the first question. */
function startsOf(notice: Notice | undefined): Part {
  const row = { name: "starts", latencyMs: null, configured: true } as const;
  if (!notice) return { ...row, status: "HEALTHY", message: null, word: healthMessages.accepted };
  const { kind, text, still, reason, since } = notice;
  const why = [text, still, ...(reason ? [m.serviceBanner.because(reason)] : [])].join(" ");
  return {
    ...row,
    status: "DEGRADED",
    message: since === null ? why : `${why} ${healthMessages.haltedSince(dateTime(since, "utc"))}`,
    word: healthMessages.halted[kind].word,
  };
}

/** Whether the workers of programs take steps: a drain by a person, and a queue that nobody serves, are named. */
function workersOf(all: WorkerDrainsQuery["workers"]): Part {
  const row = { name: "workers", latencyMs: null, configured: true } as const;
  const live = all.filter((worker) => worker.live);
  const taking = live.filter((worker) => !worker.overdue && worker.ok && worker.drain === null);
  const served = new Set(taking.map(({ queue }) => queue));
  const unserved = [...new Set(all.map(({ queue }) => queue))].filter((queue) => !served.has(queue));
  const drains = live.flatMap(({ account, worker, drain }) =>
    drain === null ? [] : [healthMessages.drained(`${account}/${worker}`, drain.actor, drain.reason)],
  );
  const said = [...new Set(drains), ...unserved.map(healthMessages.unserved)];
  if (said.length === 0) return { ...row, status: "HEALTHY", message: null, word: healthMessages.takeSteps };
  return {
    ...row,
    status: unserved.length > 0 ? "UNHEALTHY" : "DEGRADED",
    message: said.join(" "),
    word: drains.length > 0 ? healthMessages.draining : healthMessages.takeNone,
  };
}

/** Whether other systems get the events and alerts of dvt. Runs need none of them, so the installation stays healthy. */
function deliveriesOf(all: readonly Destination[]): Part {
  const row = { name: "deliveries", latencyMs: null, configured: true } as const;
  const silent = all.filter((destination) => getsNothing(destination)).map(({ name }) => name);
  if (silent.length === 0) return { ...row, status: "HEALTHY", message: null, word: healthMessages.delivered };
  return {
    ...row,
    status: "DEGRADED",
    message: healthMessages.getNothing(silent, all.length),
    word: healthMessages.notDelivered,
  };
}

const todo: Column<Part> = {
  head: healthMessages.todo,
  text: true,
  cell: (check) => {
    if (isWell(check)) return null;
    if (check.name === "workers") return <Link to="/workers">{healthMessages.toWorkers}</Link>;
    if (check.name === "deliveries") return <Link to="/deliveries">{healthMessages.toDeliveries}</Link>;
    if (check.name !== "starts") return healthMessages.todos[check.name] ?? healthMessages.tell;
    return (
      <span>
        {healthMessages.endIt}{" "}
        <Link to="/admin/$part" params={{ part: "service" }}>
          {healthMessages.toService}
        </Link>
      </span>
    );
  },
};

/** A part that is not configured needs nothing either. */
function isWell({ configured, status }: Part): boolean {
  return !configured || status === "HEALTHY";
}

const abilities: Column<Capability>[] = [
  { head: healthMessages.ability, main: true, cell: (ability) => ability.name },
  { head: healthMessages.engine, cell: (ability) => ability.engine },
  { head: healthMessages.support, cell: (ability) => ability.support },
  { head: healthMessages.note, text: true, cell: (ability) => ability.note },
];

export function HealthPage() {
  useDocumentStatus(healthMessages.title);
  const {
    answer: health,
    asOf,
    ...query
  } = useQuery(HealthDocument, {}, (result) => result.health, { every: EVERY_MS });
  const service = useQuery(ServiceDocument, {}, (result) => result.service, { every: EVERY_MS });
  const [notice] = notices(service.answer ?? null);
  const halt = notice?.kind;
  const checks = checksDuring(halt);
  const mayDebug = useCan("DEBUG") === null;
  const workers = useQuery(WorkerDrainsDocument, mayDebug ? {} : null, (result) => result.workers, {
    every: DRAINS_EVERY_MS,
  });
  const destinations = useQuery(DestinationsDocument, mayDebug ? {} : null, (result) => result.destinations, {
    every: DRAINS_EVERY_MS,
  });
  const deliveries = destinations.answer && destinations.answer.length > 0 ? deliveriesOf(destinations.answer) : null;
  const parts = health
    ? [
        ...(service.answer ? [startsOf(notice)] : []),
        ...health.checks,
        ...(workers.answer && workers.answer.length > 0 ? [workersOf(workers.answer)] : []),
        ...(deliveries ? [deliveries] : []),
      ]
    : [];
  // What the server does not count as its health, and what has no chip of its own in the head.
  const ill = parts
    .filter((part) => part.name !== "starts" && !isWell(part))
    .map(({ name }) => healthMessages.parts[name] ?? name);
  const capabilities = useQuery(CapabilitiesDocument, {}, (result) => result.capabilities);
  const engine = capabilities.answer ?? [];
  const error = query.error ?? capabilities.error;
  const again = (): void => {
    query.again();
    service.again();
    capabilities.again();
  };
  return (
    <>
      <PageHead title={healthMessages.title} asOf={asOf} refresh={again} repeated>
        {health &&
          (health.status === "HEALTHY" && ill.length > 0 ? (
            <Word status="DEGRADED" word={healthMessages.partly(ill)} />
          ) : (
            <Word status={health.status} />
          ))}
        <Link to="/alerts">{m.nav.alerts}</Link>
        <Link to="/incidents">{m.nav.incidents}</Link>
        <Link to="/deliveries">{m.nav.deliveries}</Link>
        <Link to="/workers">{m.nav.workers}</Link>
        {halt && (
          <span className={css.tone} data-tone="warn">
            <span aria-hidden="true">◐</span> {healthMessages.halted[halt].word}
          </span>
        )}
      </PageHead>
      {error !== null && <Problem error={error} retry={again} />}
      {health ? (
        <section className={css.section}>
          <p>
            {healthMessages.says[health.status]}
            {halt && ` ${healthMessages.halted[halt].says}`}
            {deliveries && !isWell(deliveries) && ` ${healthMessages.othersMiss}`}
          </p>
          <Table
            label={healthMessages.title}
            columns={parts.every(isWell) ? checks : [...checks, todo]}
            rows={parts}
            rowKey={(check) => check.name}
          />
        </section>
      ) : (
        error === null && <Skeleton rows={5} label={m.sync.LOADING} />
      )}
      {health && <Doctor />}
      {health && <HealthHistory />}
      {(health || error) && engine.length > 0 && (
        <details className={css.section}>
          <summary>{healthMessages.abilities}</summary>
          <Table
            label={healthMessages.abilities}
            columns={abilities}
            rows={engine}
            rowKey={(ability) => `${ability.engine} ${ability.name}`}
          />
        </details>
      )}
    </>
  );
}

/** Asks the doctor when a person opens it, because each run costs a question to the engine. */
function Doctor() {
  const [open, setOpen] = useState(false);
  return (
    <details className={css.section} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{doctor.title}</summary>
      {open && (
        <Suspense fallback={<Skeleton rows={2} label={m.sync.LOADING} />}>
          <InstallationDoctor />
        </Suspense>
      )}
    </details>
  );
}

function Word({ status, word }: { status: HealthStatus; word?: string | undefined }) {
  return (
    <span className={css.tone} data-tone={TONES[status]}>
      <span aria-hidden="true">{SIGNS[status]}</span> {word ?? healthMessages.words[status]}
    </span>
  );
}
