import { Link } from "@tanstack/react-router";
import { NeedSomebodyDocument, RunCausesDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { m } from "../messages";
import { doctor as words } from "../messages/doctor";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";

/** Each run costs a question to the engine, so that no more are diagnosed at once; `dvt doctor` names as many. */
const FIRST = 10;

interface Row {
  runId: string;
  planId: string;
}

const COLUMNS: Column<Row>[] = [
  {
    head: words.run,
    main: true,
    cell: ({ runId }) => (
      <Link to="/runs/$runId" params={{ runId }} search={{}} title={runId}>
        <code>{shortId(runId)}</code>
      </Link>
    ),
  },
  { head: words.plan, cell: ({ planId }) => planId },
  { head: words.first, text: true, cell: ({ runId }) => <FirstCause runId={runId} /> },
];

/** The first runs that need somebody, and the first cause of each. */
export function InstallationDoctor() {
  const { answer, error, again } = useQuery(NeedSomebodyDocument, { first: FIRST }, ({ attention }) => {
    const rows = new Map(attention.edges.map(({ node }) => [node.runId, node]));
    return [...rows.values()];
  });
  if (error !== null) return <Problem error={error} retry={again} />;
  if (answer === undefined) return <Skeleton rows={2} label={m.sync.LOADING} />;
  if (answer.length === 0) return <p>{words.none}</p>;
  return <Table label={words.title} columns={COLUMNS} rows={answer} rowKey={({ runId }) => runId} />;
}

function FirstCause({ runId }: { runId: string }) {
  const { answer, error } = useQuery(RunCausesDocument, { runId }, ({ run }) => run?.diagnosis[0]?.title ?? null);
  if (error !== null) return <>{words.unread}</>;
  return <>{answer === null ? words.noCause : answer}</>;
}
