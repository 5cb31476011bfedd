import { Link } from "@tanstack/react-router";
import { Siren } from "lucide-react";
import css from "../alerts/Alerts.module.css";
import { RunIncidentsDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { incidents as words } from "../messages/incidents";
import { toneOf } from "./incident";

const EVERY_MS = 30_000;

/**
 * A link to the newest open incident with an alert about the run. The bar has room for it, so nothing moves. The page
 * is whole without it, so an error is not shown.
 */
export function RunIncident({ runId }: { runId: string }) {
  const { answer } = useQuery(RunIncidentsDocument, { runId }, ({ incidents }) => incidents.edges[0]?.node ?? null, {
    every: EVERY_MS,
  });
  if (!answer) return null;
  const { id, severity, title, acknowledgedBy } = answer;
  const who = acknowledgedBy === null ? words.nobodyHasIt : words.has(acknowledgedBy);
  return (
    <Link
      to="/incidents/$incidentId"
      params={{ incidentId: id }}
      className={css.chip}
      data-level={toneOf(answer) === "bad" ? "HIGH" : "MEDIUM"}
      title={`${title} ${who}`}
    >
      <Siren size={14} aria-hidden="true" /> {words.one}
      <span className={css.detail}>{words.severities[severity].toLowerCase()}</span>
    </Link>
  );
}
