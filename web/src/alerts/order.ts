import type { AlertFieldsFragment, AlertLevel, AlertStage } from "../api/gen/graphql";
import { instant } from "../api/model";
import { alerts as words } from "../messages/alerts";

export type Alert = AlertFieldsFragment;

const STAGES: readonly AlertStage[] = ["OPEN", "ACKNOWLEDGED", "RESOLVED"];
const LEVELS: readonly AlertLevel[] = ["HIGH", "MEDIUM", "LOW"];

/** Open alerts first, then by level; of the same level the oldest first. */
export function byUrgency(a: Alert, b: Alert): number {
  return (
    STAGES.indexOf(a.stage) - STAGES.indexOf(b.stage) ||
    LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) ||
    instant(a.raisedAt) - instant(b.raisedAt)
  );
}

/** What happened, in a few words. */
export function titleOf({ meaning, code, actor }: Alert): string {
  return meaning ?? code ?? words.asked(actor);
}
