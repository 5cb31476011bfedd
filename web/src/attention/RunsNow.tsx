import { Link } from "@tanstack/react-router";
import { RunsNowDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { runsNow as words } from "../messages/runsNow";
import css from "./Attention.module.css";

const EVERY_MS = 10_000;

/** What runs, stands and waits to start, and what is late: each number leads to its runs. */
export function RunsNow({ late }: { late: number }) {
  const { last } = useQuery(
    RunsNowDocument,
    {},
    ({ runCounts: [running = 0, awaiting = 0, paused = 0, waiting = 0] }) => ({
      running: Math.max(0, running - awaiting),
      paused,
      waiting,
    }),
    { every: EVERY_MS },
  );
  if (!last) return null;
  const parts: readonly [number, (n: number) => string, ("RUNNING" | "PAUSED" | "PENDING")[]][] = [
    [last.running, words.running, ["RUNNING"]],
    [last.paused, words.paused, ["PAUSED"]],
    [last.waiting, words.waiting, ["PENDING"]],
  ];
  const shown = parts.filter(([n]) => n > 0);
  return (
    <p className={css.note}>
      {words.now} {shown.length === 0 && words.nothing}
      {shown.map(([n, says, status], i) => (
        <span key={status.join()}>
          {i > 0 && " · "}
          <Link to="/runs" search={{ status }}>
            {says(n)}
          </Link>
        </span>
      ))}
      {shown.length > 0 && <> · {words.late(late)}</>}
    </p>
  );
}
