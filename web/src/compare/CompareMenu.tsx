import { Link } from "@tanstack/react-router";
import { RunsDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { m } from "../messages";
import css from "./Compare.module.css";

interface ComparedRun {
  runId: string;
  projectId: string;
  environmentId: string;
  plan: { planId: string };
  createdAt: number;
  parentRunId: string | null;
}

/** The runs with which a run is likely to be compared, and a link to choose another. */
export function CompareMenu({ run, greenId, onGo }: { run: ComparedRun; greenId: string | null; onGo: () => void }) {
  const { runId, parentRunId } = run;
  const before = useRunBefore(run);
  return (
    <ul className={css.links}>
      {greenId !== null && (
        <li>
          <CompareLink a={greenId} b={runId} onGo={onGo} text={m.compare.withGreen} />
        </li>
      )}
      {parentRunId !== null && (
        <li>
          <CompareLink a={parentRunId} b={runId} onGo={onGo} text={m.compare.withParent(shortId(parentRunId))} />
        </li>
      )}
      {before !== null && before !== parentRunId && (
        <li>
          <CompareLink a={before} b={runId} onGo={onGo} text={m.compare.withBefore(shortId(before))} />
        </li>
      )}
      <li>
        <CompareLink a={undefined} b={runId} onGo={onGo} text={m.compare.withOther} />
      </li>
    </ul>
  );
}

function CompareLink({ a, b, text, onGo }: { a: string | undefined; b: string; text: string; onGo: () => void }) {
  return (
    <Link to="/compare" search={{ a, b }} preload={false} onClick={onGo}>
      {text}
    </Link>
  );
}

/** The id of the newest run of the same plan in the same place that was created before; null for none. */
function useRunBefore({ runId, projectId, environmentId, plan, createdAt }: ComparedRun): string | null {
  // createdTo is exclusive and JavaScript drops the API's microseconds, so add 1 ms.
  const createdTo = new Date(createdAt + 1).toISOString();
  const { answer } = useQuery(
    RunsDocument,
    {
      first: 2,
      after: null,
      filter: { planId: plan.planId, projectId, environmentId, createdTo },
      orderBy: "CREATED_DESC" as const,
    },
    ({ runs }) => runs.edges.map(({ node }) => node.runId).filter((id) => id !== runId),
  );
  return answer?.[0] ?? null;
}
