import { Link } from "@tanstack/react-router";
import { Ban } from "lucide-react";
import type { RunHeader } from "../api/model";
import { m } from "../messages";
import { StepTitle } from "../runstate/stepTitle";
import { RESET_STEP_PARAMS } from "../address/views";
import { cancelledWords } from "../status/runWords";
import { Time } from "../ui/Time";
import css from "./CauseCard.module.css";

interface CancelledCardProps {
  header: RunHeader;
  cancellation: NonNullable<RunHeader["cancellation"]>;
}

/** Why a cancelled run ended: who did it, when and why. A step that had failed before stands below it. */
export function CancelledCard({ header, cancellation }: CancelledCardProps) {
  const { pending } = header.stepCounts;
  const cause = header.rootCause;
  const words = cancelledWords(cancellation);
  return (
    <section className={css.card} data-cancelled aria-labelledby="cancelled" data-testid="cancellation">
      <h2 id="cancelled" className={css.title}>
        {m.run.cancelled.title}
      </h2>
      <p className={css.line}>
        <Ban size={16} aria-hidden="true" className={css.icon} />
        <strong>{words.charAt(0).toUpperCase() + words.slice(1)}</strong>
        <span className={css.facts}>
          <Time at={cancellation.at} format="full" /> · seq {cancellation.runSeq}
        </span>
        {cancellation.signalId !== null && (
          <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "receipts" })}>
            {m.run.cancelled.receipt}
          </Link>
        )}
      </p>
      {pending > 0 && (
        <p>
          <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "steps", show: ["PENDING"] })}>
            {m.run.cancelled.neverStarted(pending)}
          </Link>
          .
        </p>
      )}
      {cause?.stepId && (
        <p>
          {m.run.cancelled.before}{" "}
          <Link
            from="/runs/$runId"
            to="."
            search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: cause.stepId ?? undefined, tab: "error" })}
          >
            <StepTitle stepId={cause.stepId} />
          </Link>{" "}
          <code className={css.code}>{cause.code}</code>
        </p>
      )}
    </section>
  );
}
