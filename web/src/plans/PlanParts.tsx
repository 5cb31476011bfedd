// What a diff of plans or parameters shows.
import type { PlanPartFieldsFragment } from "../api/gen/graphql";
import { planDiff as planDiffWords } from "../messages/planDiff";
import css from "./Plans.module.css";

/** The members that differ, each with both values. */
export function PlanParts({ parts }: { parts: readonly PlanPartFieldsFragment[] }) {
  return (
    <ul className={css.parts}>
      {parts.map(({ path, from, to }) => (
        <li key={path}>
          <code>{path}</code>: {from === null ? <Nothing /> : <del>{from}</del>} →{" "}
          {to === null ? <Nothing /> : <ins>{to}</ins>}
        </li>
      ))}
    </ul>
  );
}

function Nothing() {
  return <span className={css.quiet}>{planDiffWords.nothing}</span>;
}
