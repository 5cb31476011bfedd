// Tells a person who may not start runs at the top of the form, not at its end, and names who can.
import { KnownPlansDocument, WhoCouldStartDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import css from "./Start.module.css";

export function MayNot() {
  // The server names who can start a run again, which needs the same role in the same place.
  const { answer: newest } = useQuery(
    KnownPlansDocument,
    { first: 1 },
    ({ runs }) => runs.edges[0]?.node.runId ?? null,
  );
  const { answer: who } = useQuery(
    WhoCouldStartDocument,
    newest ? { runId: newest } : null,
    ({ preview }) => preview.whoCould,
  );
  return (
    <p className={css.mayNot} role="status">
      <strong>{m.start.mayNot}</strong> {who && who.length > 0 && m.start.who(who.join(", "))}
    </p>
  );
}
