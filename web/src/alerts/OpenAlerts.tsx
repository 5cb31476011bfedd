import { Link } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import { AlertCountDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { alerts as words } from "../messages/alerts";
import css from "./Alerts.module.css";

const EVERY_MS = 15_000;

/** The number of open alerts that the viewer may see, as a link to them. Nothing without one. */
export function OpenAlerts() {
  const { last = 0 } = useQuery(AlertCountDocument, {}, ({ viewer }) => viewer?.alertCount ?? 0, { every: EVERY_MS });
  if (last === 0) return null;
  return (
    <Link to="/alerts" className={css.chip} data-level="HIGH">
      <TriangleAlert size={14} aria-hidden="true" /> {words.openCount(last)}
    </Link>
  );
}
