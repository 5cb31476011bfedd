import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { AlertsDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { alerts as words } from "../messages/alerts";
import { useMay } from "../session/MayNot";
import { Button } from "../ui/Button";
import { AcknowledgeDialog } from "./AlertDialogs";
import css from "./Alerts.module.css";
import { type Alert, byUrgency, titleOf } from "./order";

const EVERY_MS = 10_000;
const FIRST = 50;

/** The gravest open alert of the run in one line. The page is whole without it, so an error is not shown. */
export function RunAlerts({ runId }: { runId: string }) {
  const { answer, again } = useQuery(
    AlertsDocument,
    { filter: { runId, stages: ["OPEN"] }, first: FIRST },
    ({ alerts }) => alerts.edges.map(({ node }) => node).toSorted(byUrgency),
    { every: EVERY_MS },
  );
  const may = useMay("ANNOTATE");
  const [asking, setAsking] = useState<Alert | null>(null);
  const [first] = answer ?? [];
  const others = (answer?.length ?? 0) - 1;
  return (
    <>
      {first && (
        <section className={css.banner} aria-label={words.open}>
          <p className={css.line} title={first.note}>
            <strong>{titleOf(first)}</strong> {first.note}
          </p>
          {others > 0 && <Link to="/alerts">{words.more(others)}</Link>}
          <Button refusal={may.refusal} onClick={() => setAsking(first)}>
            {words.acknowledge}…
          </Button>
        </section>
      )}
      {asking && <AcknowledgeDialog alert={asking} done={again} close={() => setAsking(null)} />}
    </>
  );
}
