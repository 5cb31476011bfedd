// Names the runs that the queue gave up. They left it, and a person who looks for them there would find nothing.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { GivenUpDocument } from "../api/gen/graphql";
import { toRow } from "../api/model";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { m } from "../messages";
import { Where } from "../ui/Env";
import { Time } from "../ui/Time";
import css from "./SlotHolders.module.css";

const DAY_MS = 86_400_000;
const SEARCHED = 100;
const EVERY_MS = 15_000;
const CODE = "QUEUE_TTL_EXCEEDED";

/** The runs of the last day that failed because they waited too long; nothing without one. */
export function GivenUp() {
  const [from] = useState(() => new Date(Date.now() - DAY_MS).toISOString());
  const { last } = useQuery(
    GivenUpDocument,
    { from, first: SEARCHED },
    ({ runs }) => runs.edges.map(({ node }) => toRow(node)).filter(({ rootCause }) => rootCause?.code === CODE),
    { every: EVERY_MS },
  );
  if (!last || last.length === 0) return null;
  return (
    <section className={css.holders} aria-label={m.queue.givenUp}>
      <h2>{m.queue.givenUp}</h2>
      <p className={css.means}>{m.queue.givenUpMeans}</p>
      <ul className={css.list}>
        {last.map((row) => (
          <li key={row.runId}>
            <Link to="/runs/$runId" params={{ runId: row.runId }} title={row.runId}>
              {row.plan.planId}@{row.plan.planVersion} <code>{shortId(row.runId)}</code>
            </Link>
            <Where project={row.projectId} environment={row.environmentId} />
            {row.completedAt !== null && (
              <span className={css.means}>
                <Time at={row.completedAt} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
