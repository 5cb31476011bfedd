import { Link } from "@tanstack/react-router";
import type { RunHeader } from "../api/model";
import { m } from "../messages";
import css from "./CauseCard.module.css";

/** What a failure holds up: all steps that do not start, and those of them that need the failed step, each as a link. */
export function HeldLinks({
  cause,
}: {
  cause: Pick<NonNullable<RunHeader["rootCause"]>, "heldSteps" | "blockedSteps">;
}) {
  const { heldSteps: held, blockedSteps: blocked } = cause;
  if (held === 0) return null;
  return (
    <p className={css.held} data-testid="held">
      {m.run.nothingStarts}{" "}
      <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "steps", show: ["HELD"] })}>
        {m.run.heldSteps(held)}
      </Link>
      ,{" "}
      {blocked === 0 || blocked === held ? (
        m.run.needThis(blocked, held)
      ) : (
        <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "steps", show: ["BLOCKED"] })}>
          {m.run.needThis(blocked, held)}
        </Link>
      )}
      .
    </p>
  );
}
