import { Copy, OctagonX } from "lucide-react";
import { useState } from "react";
import { ActionButton } from "../actions/ActionButton";
import type { Actions } from "../actions/useActions";
import type { RunHeader } from "../api/model";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { attemptName } from "../ui/format";
import css from "./CauseCard.module.css";

interface CauseCardProps {
  header: RunHeader;
  actions: Actions | null;
  openStep: (stepId: string, tab: "log" | "error") => void;
}

/** What broke, in its own words, what it holds up, and the next safe action. */
export function CauseCard({ header, actions, openStep }: CauseCardProps) {
  const [copied, setCopied] = useState(false);
  const cause = header.rootCause;
  if (!cause) return null;
  const stepId = cause.stepId;
  const facts = [
    cause.category && cause.category !== "UNKNOWN" ? cause.category : null,
    cause.retryable ? m.run.retryable : m.run.notRetryable,
    cause.blockedSteps > 0 ? m.run.blocks(cause.blockedSteps) : null,
    `seq ${cause.firstSeq}`,
  ].filter((fact) => fact !== null);
  const copy = (): void => {
    const text = [stepId, cause.code, cause.message].filter((part) => part !== null).join("\n");
    void navigator.clipboard.writeText(text).then(() => setCopied(true));
  };
  return (
    <section className={css.card} aria-labelledby="root-cause" data-testid="root-cause">
      <h2 id="root-cause" className={css.title}>
        {m.run.rootCause}
      </h2>
      <p className={css.line}>
        <OctagonX size={16} aria-hidden="true" className={css.icon} />
        {stepId && <strong>{stepId}</strong>}
        {cause.logicalAttemptId !== null && cause.logicalAttemptId > 1 && <span>{attemptName(cause.logicalAttemptId)}</span>}
        <code className={css.code}>{cause.code}</code>
        <span className={css.facts}>{facts.join(" · ")}</span>
      </p>
      {cause.message && <pre className={css.message}>{cause.message}</pre>}
      <div className={css.buttons}>
        {stepId && <ActionButton action="RETRY_STEP" actions={actions} stepId={stepId} kind="primary" />}
        {stepId && <Button onClick={() => openStep(stepId, "log")}>{m.run.openLog}</Button>}
        {stepId && <Button onClick={() => openStep(stepId, "error")}>{m.run.openStep}</Button>}
        <Button kind="quiet" onClick={copy}>
          <Copy size={14} aria-hidden="true" /> {copied ? m.run.copied : m.run.copy}
        </Button>
      </div>
    </section>
  );
}
