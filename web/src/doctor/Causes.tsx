import { Link } from "@tanstack/react-router";
import { useRunActions } from "../actions/context";
import { SENDABLE, type Sendable } from "../actions/intent";
import { useRefusal } from "../actions/useRefusal";
import { RESET_STEP_PARAMS, readLog } from "../address/views";
import { instant } from "../api/model";
import { m } from "../messages";
import { doctor as words } from "../messages/doctor";
import { StepTitle } from "../runstate/stepTitle";
import { Button } from "../ui/Button";
import { Time } from "../ui/Time";
import css from "./Doctor.module.css";
import type { Cause } from "./useCauses";

type Fact = Cause["evidence"][number];
type Advice = Cause["next"][number];

/** Pages about the installation that show a fact. */
const PAGES = ["/health", "/queue", "/workers"] as const;

/** The causes in their order, each with the facts on which it rests and with what a person can do. */
export function Causes({ causes }: { causes: readonly Cause[] }) {
  return (
    <ol className={css.causes} aria-label={words.causes}>
      {causes.map((cause) => (
        <li key={`${cause.code} ${cause.title} ${cause.stepIds.join()}`} className={css.cause} data-kind={cause.kind}>
          <p>
            <strong>{cause.title}</strong>{" "}
            <span className={css.quiet}>
              {words.kinds[cause.kind]}, {words.confidences[cause.confidence]}
              {cause.since !== null && (
                <>
                  , {words.since} <Time at={instant(cause.since)} />
                </>
              )}
              {cause.until !== null && (
                <>
                  , {words.until} <Time at={instant(cause.until)} format="full" />
                </>
              )}
            </span>
          </p>
          <Steps cause={cause} />
          <ul>
            {cause.evidence.map((fact) => (
              <li key={`${fact.source} ${fact.runSeq} ${fact.stepId} ${fact.text}`} className={css.fact}>
                <FactLink fact={fact} />
                {fact.text}
                {fact.metric !== null && (
                  <>
                    {" "}
                    <span className={css.quiet}>
                      {words.metric} <code>{fact.metric}</code>
                    </span>
                  </>
                )}
              </li>
            ))}
          </ul>
          <ul aria-label={words.what}>
            {cause.next.map((advice) => (
              <li key={`${advice.text} ${advice.stepId}`} className={css.advice}>
                <Step advice={advice} />
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ol>
  );
}

function Steps({ cause: { stepIds, moreSteps } }: { cause: Cause }) {
  if (stepIds.length === 0) return null;
  return (
    <p>
      {words.steps(stepIds.length + moreSteps)}:{" "}
      {stepIds.map((stepId, i) => (
        <span key={stepId}>
          {i > 0 && ", "}
          <Link from="/runs/$runId" to="." search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: stepId })}>
            <StepTitle stepId={stepId} />
          </Link>
        </span>
      ))}
      {moreSteps > 0 && ` ${words.more(moreSteps)}`}
    </p>
  );
}

/** Where the fact was read, as a link to the page that the server names. */
function FactLink({ fact: { source, runSeq, stepId, logicalAttemptId, line, page } }: { fact: Fact }) {
  const name = words.sources[source];
  if (runSeq !== null) {
    return (
      <Link
        from="/runs/$runId"
        to="."
        search={(old) => ({ ...old, view: "events", seq: runSeq, types: undefined })}
        className={css.source}
      >
        {name}, seq {runSeq}
      </Link>
    );
  }
  if (source === "OUTPUT" && stepId !== null) {
    return (
      <Link
        from="/runs/$runId"
        to="."
        search={(old) => ({
          ...old,
          ...RESET_STEP_PARAMS,
          step: stepId,
          attempt: logicalAttemptId ?? undefined,
          tab: "log",
          line: line ?? undefined,
        })}
        state={readLog}
        className={css.source}
      >
        {name}
        {line !== null && `, ${words.line(line)}`}
      </Link>
    );
  }
  const elsewhere = PAGES.find((path) => path === page);
  if (elsewhere !== undefined)
    return (
      <Link to={elsewhere} className={css.source}>
        {name}
      </Link>
    );
  if (page.startsWith("/compare?")) {
    const runs = new URLSearchParams(page.slice(page.indexOf("?")));
    return (
      <Link
        to="/compare"
        search={{ a: runs.get("a") ?? undefined, b: runs.get("b") ?? undefined }}
        className={css.source}
      >
        {name}
      </Link>
    );
  }
  if (stepId !== null)
    return (
      <Link
        from="/runs/$runId"
        to="."
        search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: stepId })}
        className={css.source}
      >
        {name}
      </Link>
    );
  return <span className={css.source}>{name}</span>;
}

/** Advice. A signal is a button that opens its preview; the person confirms it there. */
function Step({ advice: { text, signalType, stepId, safe, force } }: { advice: Advice }) {
  const action = SENDABLE.find((one) => one === signalType);
  return (
    <>
      <span>{text}</span>
      {action && <SignalButton action={action} stepId={stepId} />}
      {action && safe && (
        <span className={css.safe} title={words.safeMeans}>
          {words.safe}
        </span>
      )}
      {action && force && (
        <span className={css.quiet} title={words.forceMeans}>
          {words.force}
        </span>
      )}
    </>
  );
}

function SignalButton({ action, stepId }: { action: Sendable; stepId: string | null }) {
  const { act } = useRunActions();
  const { reason } = useRefusal(action, stepId);
  return (
    <Button refusal={reason} onClick={() => act(action, stepId)}>
      {m.action[action]}…
    </Button>
  );
}
