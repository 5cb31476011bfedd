import { TriangleAlert } from "lucide-react";
import { useState } from "react";
import { AlertsDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { alerts as words } from "../messages/alerts";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { AlertList } from "./AlertList";
import css from "./Alerts.module.css";
import { byUrgency, titleOf } from "./order";

const EVERY_MS = 10_000;
const FIRST = 50;

/**
 * The number of open alerts of the run with the gravest one, as a button that lists the unresolved ones. The page is
 * whole without it, so an error is not shown.
 */
export function RunAlerts({ runId }: { runId: string }) {
  const { answer = [], again } = useQuery(
    AlertsDocument,
    { filter: { runId, stages: ["OPEN", "ACKNOWLEDGED"] }, first: FIRST },
    ({ alerts }) => alerts.edges.map(({ node }) => node).toSorted(byUrgency),
    { every: EVERY_MS },
  );
  const [listed, setListed] = useState(false);
  const open = answer.filter(({ stage }) => stage === "OPEN");
  const [first] = open;
  return (
    <>
      {first && (
        <button
          type="button"
          className={css.chip}
          data-level={first.level}
          title={`${titleOf(first)} ${first.note}`}
          onClick={() => setListed(true)}
        >
          <TriangleAlert size={14} aria-hidden="true" /> {words.chip(open.length, words.levels[first.level])}
        </button>
      )}
      {listed && (
        <Dialog title={words.ofThisRun} onClose={() => setListed(false)} wide>
          <AlertList alerts={answer} changed={again} />
          <Button onClick={() => setListed(false)}>{words.close}</Button>
        </Dialog>
      )}
    </>
  );
}
