// What an open run stands still for beside what the page shows anyway: approvals, the queue, pauses and people.
import { RunWaitsDocument, type RunWaitsQuery } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { instant } from "../api/model";
import { m } from "../messages";
import { useHeader } from "../runstate/context";
import { ended } from "../status/look";
import { Time } from "../ui/Time";
import css from "./RunWaits.module.css";

type Wait = NonNullable<RunWaitsQuery["run"]>["waits"][number];

const EVERY_MS = 10_000;
const SHOWN: readonly Wait["kind"][] = ["ENGINE", "STORE", "JOURNAL", "QUOTA", "WORKER", "PLAN_FETCH"];

export function RunWaits({ runId }: { runId: string }) {
  const header = useHeader();
  const open = header !== null && !ended(header);
  // It is queried, because the stream is silent while the run stands still.
  const waits = useQuery(RunWaitsDocument, open ? { runId } : null, ({ run }) => run?.waits ?? [], {
    every: EVERY_MS,
  }).answer;
  // The line about the queue says which quota a run that has not started waits for.
  const shown = (waits ?? []).filter(
    (wait) => SHOWN.includes(wait.kind) && !(wait.kind === "QUOTA" && !header?.startedAt),
  );
  if (!open || shown.length === 0) return null;
  return (
    <div role="status" data-testid="waits">
      {shown.map((wait) => (
        <p key={`${wait.kind} ${wait.message}`} className={css.wait}>
          {wait.message}
          {wait.since !== null && (
            <>
              {" "}
              {m.run.waitsSince} <Time at={instant(wait.since)} />
            </>
          )}
          {wait.until !== null && (
            <>
              {" "}
              {m.run.waitsUntil} <Time at={instant(wait.until)} />
            </>
          )}{" "}
          {wait.help} {wait.whoCould.length > 0 && m.run.whoCanHelp(wait.whoCould)}
        </p>
      ))}
    </div>
  );
}
