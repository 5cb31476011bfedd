import type { PreviewQuery } from "../api/gen/graphql";
import { m } from "../messages";

/** The server's sentence about an action, with the code of a refusal. */
export function explainRefusal({
  outcome,
  reason,
  code,
}: Pick<PreviewQuery["preview"], "outcome" | "reason" | "code">): string {
  return [reason ?? m.bulk.outcomes[outcome], outcome === "APPLY" || code === null ? null : `[${code}]`]
    .filter((part) => part !== null)
    .join(" ");
}
