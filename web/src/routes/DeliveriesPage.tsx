import { Link } from "@tanstack/react-router";
import { DestinationsDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import type { Destination } from "../deliveries/destination";
import { StateOf } from "../deliveries/DestinationState";
import { count } from "../format/format";
import { m } from "../messages";
import { deliveries as words } from "../messages/deliveries";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { Gate } from "../session/MayNot";
import css from "../styles/Form.module.css";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice, Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";

const EVERY_MS = 5_000;

const COLUMNS: Column<Destination>[] = [
  {
    head: words.destination,
    main: true,
    cell: ({ name }) => (
      <Link to="/deliveries/$name" params={{ name }}>
        {name}
      </Link>
    ),
  },
  { head: words.kind, cell: ({ kind }) => kind && words.kinds[kind] },
  { head: words.state, text: true, cell: (destination) => <StateOf destination={destination} /> },
  { head: words.accepted, wide: true, cell: ({ sent }) => count(sent) },
  {
    head: words.dead,
    cell: ({ deadLetters }) =>
      deadLetters === 0 ? (
        "0"
      ) : (
        <span className={css.tone} data-tone="bad">
          {count(deadLetters)}
        </span>
      ),
  },
];

export function DeliveriesPage() {
  return (
    <Gate action="DEBUG" title={words.title}>
      <Destinations />
    </Gate>
  );
}

/** The systems that events and alerts are delivered to, and what each does now. */
function Destinations() {
  useDocumentStatus(words.title);
  const { answer, error, asOf, again } = useQuery(DestinationsDocument, {}, ({ destinations }) => destinations, {
    every: EVERY_MS,
  });
  return (
    <>
      <PageHead title={words.title} asOf={asOf} refresh={again} repeated />
      <p className={`${css.row} ${css.hint}`}>{words.says}</p>
      {error !== null && <Problem error={error} retry={again} />}
      {answer === undefined && error === null && <Skeleton rows={3} label={m.sync.LOADING} />}
      {answer?.length === 0 && (
        <Notice title={m.page.nothing}>
          <p>{words.empty}</p>
        </Notice>
      )}
      {answer && answer.length > 0 && (
        <Table label={words.title} columns={COLUMNS} rows={answer} rowKey={({ name }) => name} />
      )}
    </>
  );
}
