import {
  CapabilitiesDocument,
  type CapabilitiesQuery,
  HealthDocument,
  type HealthQuery,
  type HealthStatus,
} from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { HealthHistory } from "../health/HealthHistory";
import { m } from "../messages";
import { useDocumentStatus } from "../ui/documentStatus";
import css from "../styles/Form.module.css";
import { duration } from "../format/format";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";

type Check = HealthQuery["health"]["checks"][number];
type Capability = CapabilitiesQuery["capabilities"][number];
const EVERY_MS = 5_000;
const TONES = { HEALTHY: "good", DEGRADED: "warn", UNHEALTHY: "bad" } as const satisfies Record<HealthStatus, string>;
const SIGNS = { HEALTHY: "●", DEGRADED: "◐", UNHEALTHY: "✕" } as const satisfies Record<HealthStatus, string>;

const checks: Column<Check>[] = [
  { head: m.health.part, main: true, cell: (check) => m.health.parts[check.name] ?? check.name },
  {
    head: m.health.status,
    cell: (check) =>
      check.configured ? (
        <Word status={check.status} />
      ) : (
        <span className={css.tone}>
          <span aria-hidden="true">○</span> {m.health.notConfigured}
        </span>
      ),
  },
  { head: m.health.latency, cell: (check) => (check.latencyMs === null ? null : duration(check.latencyMs)) },
  { head: m.health.means, text: true, cell: (check) => check.message ?? m.health.fine[check.name] },
];
const todo: Column<Check> = {
  head: m.health.todo,
  text: true,
  cell: (check) => (isWell(check) ? null : (m.health.todos[check.name] ?? m.health.tell)),
};

/** A part that is not configured needs nothing either. */
function isWell({ configured, status }: Check): boolean {
  return !configured || status === "HEALTHY";
}

const abilities: Column<Capability>[] = [
  { head: m.health.ability, main: true, cell: (ability) => ability.name },
  { head: m.health.engine, cell: (ability) => ability.engine },
  { head: m.health.support, cell: (ability) => ability.support },
  { head: m.health.note, text: true, cell: (ability) => ability.note },
];

export function HealthPage() {
  useDocumentStatus(m.health.title);
  const {
    answer: health,
    asOf,
    ...query
  } = useQuery(HealthDocument, {}, (result) => result.health, { every: EVERY_MS });
  const capabilities = useQuery(CapabilitiesDocument, {}, (result) => result.capabilities);
  const engine = capabilities.answer ?? [];
  const error = query.error ?? capabilities.error;
  const again = (): void => {
    query.again();
    capabilities.again();
  };
  return (
    <>
      <PageHead title={m.health.title} asOf={asOf} refresh={again} repeated>
        {health && <Word status={health.status} />}
      </PageHead>
      {error !== null && <Problem error={error} retry={again} />}
      {health ? (
        <section className={css.section}>
          <p>{m.health.says[health.status]}</p>
          <Table
            label={m.health.title}
            columns={health.checks.every(isWell) ? checks : [...checks, todo]}
            rows={health.checks}
            rowKey={(check) => check.name}
          />
        </section>
      ) : (
        error === null && <Skeleton rows={5} label={m.sync.LOADING} />
      )}
      {health && <HealthHistory />}
      {(health || error) && engine.length > 0 && (
        <details className={css.section}>
          <summary>{m.health.abilities}</summary>
          <Table
            label={m.health.abilities}
            columns={abilities}
            rows={engine}
            rowKey={(ability) => `${ability.engine} ${ability.name}`}
          />
        </details>
      )}
    </>
  );
}

function Word({ status }: { status: HealthStatus }) {
  return (
    <span className={css.tone} data-tone={TONES[status]}>
      <span aria-hidden="true">{SIGNS[status]}</span> {m.health.words[status]}
    </span>
  );
}
