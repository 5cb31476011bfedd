import type { IncidentFieldsFragment, IncidentSeverity } from "../api/gen/graphql";
import { instant } from "../api/model";

export type Incident = IncidentFieldsFragment;

/** The worst first. */
export const SEVERITIES: readonly IncidentSeverity[] = ["SEV_0", "SEV_1", "SEV_2", "SEV_3"];

/** Open incidents first, the worst first; of the same severity the newest first. Closed ones stand by their time. */
export function byUrgency(a: Incident, b: Incident): number {
  const [closedA, closedB] = [a.closedAt !== null, b.closedAt !== null];
  if (closedA !== closedB) return closedA ? 1 : -1;
  const worse = closedA ? 0 : SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity);
  return worse || instant(b.openedAt) - instant(a.openedAt);
}

/** The colour of an open incident: severities 0 and 1 wake people. */
export function toneOf({ severity, closedAt }: Pick<Incident, "severity" | "closedAt">): "bad" | "warn" | undefined {
  if (closedAt !== null) return undefined;
  return severity === "SEV_3" || severity === "SEV_2" ? "warn" : "bad";
}
