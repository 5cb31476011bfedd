import { getRouteApi, Link } from "@tanstack/react-router";
import { IncidentsDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useConnection } from "../api/useConnection";
import { Affected } from "../incidents/Affected";
import { byUrgency, type Incident, toneOf } from "../incidents/incident";
import { m } from "../messages";
import { incidents as words } from "../messages/incidents";
import { List, PageHead } from "../page/List";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";

const route = getRouteApi("/incidents");
const EVERY_MS = 10_000;

const COLUMNS: Column<Incident>[] = [
  {
    head: words.severity,
    cell: (incident) => (
      <span className={css.tone} data-tone={toneOf(incident)} title={words.means[incident.severity]}>
        {words.severities[incident.severity]}
      </span>
    ),
  },
  {
    head: words.what,
    main: true,
    text: true,
    cell: ({ id, title }) => (
      <Link to="/incidents/$incidentId" params={{ incidentId: id }}>
        {title}
      </Link>
    ),
  },
  { head: words.state, cell: (incident) => <Holder incident={incident} /> },
  { head: words.since, cell: ({ openedAt }) => <Time at={instant(openedAt)} /> },
  { head: words.affected, cell: (incident) => <Affected of={incident} /> },
  { head: words.alerts, cell: ({ alerts, openAlerts }) => words.alertCount(alerts, openAlerts) },
];

/** The incidents that the viewer may see: the open ones, or all. */
export function IncidentsPage() {
  useDocumentStatus(words.title);
  const { all } = route.useSearch();
  const navigate = route.useNavigate();
  const pages = useConnection(IncidentsDocument, { openOnly: all !== "yes" }, ({ incidents }) => incidents, {
    every: EVERY_MS,
  });
  return (
    <>
      <PageHead title={words.title} asOf={pages.asOf} refresh={pages.refresh} repeated>
        <Button
          pressed={all === "yes"}
          onClick={() =>
            void navigate({ search: (old) => ({ ...old, all: all === "yes" ? undefined : "yes" }), replace: true })
          }
        >
          {words.all}
        </Button>
        <Link to="/alerts">{m.nav.alerts}</Link>
      </PageHead>
      <p className={`${css.row} ${css.hint}`}>{words.says}</p>
      <List
        label={words.title}
        pages={{ ...pages, rows: pages.rows?.toSorted(byUrgency) ?? null }}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        empty={<p>{all === "yes" ? words.noneAtAll : words.none}</p>}
      />
    </>
  );
}

function Holder({ incident }: { incident: Incident }) {
  const { acknowledgedBy, closedBy } = incident;
  if (closedBy !== null) return words.closedBy(closedBy);
  if (acknowledgedBy !== null) return acknowledgedBy;
  return (
    <span className={css.tone} data-tone={toneOf(incident)}>
      {words.nobody}
    </span>
  );
}
