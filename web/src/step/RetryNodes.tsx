import { type FormEvent, useState } from "react";
import { type ApiError, toApiError } from "../api/error";
import {
  type ActionInput,
  type RetryNodesInput,
  type RetryNodesMode,
  SignalRunDocument,
  TypedDocumentString,
} from "../api/gen/graphql";
import type { Step } from "../api/model";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { useRefusal } from "../actions/useRefusal";
import { m } from "../messages";
import { models } from "../messages/artifacts";
import confirm from "../styles/Confirm.module.css";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { nodeName } from "./manifest";
import css from "./StepModels.module.css";

interface Named {
  uniqueId: string;
  name: string;
  why: string;
  because: string | null;
}

interface Previewed {
  preview: { basedOnSeq: number; reason: string | null; nodes: { count: number; nodes: Named[] } | null };
}

// It stands here and not with the other operations, because those are a part of the first load.
const RetryNodesDocument = new TypedDocumentString<Previewed, { action: ActionInput }>(
  `query RetryNodes($action: ActionInput!) {
  preview(action: $action) { basedOnSeq reason nodes { count nodes { uniqueId name why because } } }
}`,
);

const MODES: readonly RetryNodesMode[] = ["FAILED", "FAILED_AND_THEIR_TESTED_PARENTS"];
/** The most nodes that are listed, and that a retry by ids may have. */
const LISTED = 1000;

interface RetryNodesProps {
  runId: string;
  step: Pick<Step, "stepId" | "logicalAttemptId" | "changedSeq">;
  /** The number of failed nodes. */
  failed: number;
}

/** Opens the confirmation of a retry of the failed nodes of a step, or says why it is refused. */
export function RetryNodes({ runId, step, failed }: RetryNodesProps) {
  const [open, setOpen] = useState(false);
  const [sent, setSent] = useState(false);
  const { reason } = useRefusal("RETRY_STEP", step.stepId);
  return (
    <div>
      <Button refusal={reason} onClick={() => setOpen(true)}>
        {models.retry.open(failed)}
      </Button>
      <p role="status">{sent && models.retry.sent}</p>
      {open && (
        <Confirm
          runId={runId}
          step={step}
          onClose={() => setOpen(false)}
          onSent={() => {
            setOpen(false);
            setSent(true);
          }}
        />
      )}
    </div>
  );
}

interface ConfirmProps extends Omit<RetryNodesProps, "failed"> {
  onClose: () => void;
  onSent: () => void;
}

/** Names the nodes that would run, and why. Nodes can be unticked. Only its button sends. */
function Confirm({ runId, step, onClose, onSent }: ConfirmProps) {
  const { stepId } = step;
  const [mode, setMode] = useState<RetryNodesMode>("FAILED");
  const [without, setWithout] = useState<ReadonlySet<string>>(new Set());
  const [reason, setReason] = useState("");
  const [sending, setSending] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);
  // One id for each dialog, so that a repetition has no second effect.
  const [signalId] = useState(() => `ui-${newId()}`);
  const signalOf = (nodes: RetryNodesInput, why: string | null) => ({
    retryStep: { stepId, reason: why, force: false, expectedLogicalAttemptId: step.logicalAttemptId, nodes },
  });
  const { answer: preview, error } = useQuery(
    RetryNodesDocument,
    { action: { signal: { runId, signal: signalOf({ mode }, null) } } },
    (data) => data.preview,
    { refetchOn: String(step.changedSeq) },
  );
  const set = preview?.nodes ?? null;
  const rows = set?.nodes.slice(0, LISTED) ?? [];
  const chosen = (set?.count ?? 0) - without.size;
  const byId = without.size > 0;
  const problem = chosen === 0 ? models.retry.none : byId && chosen > LISTED ? models.retry.tooMany(LISTED) : null;
  const toggle = (id: string): void => {
    const next = new Set(without);
    if (!next.delete(id)) next.add(id);
    setWithout(next);
  };
  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    if (!set || !preview || problem !== null || sending) return;
    const uniqueIds = set.nodes.flatMap(({ uniqueId }) => (without.has(uniqueId) ? [] : [uniqueId]));
    const why = reason.trim() === "" ? null : reason.trim();
    setSending(true);
    setFailure(null);
    const signal = signalOf(byId ? { uniqueIds } : { mode }, why);
    request(SignalRunDocument, { input: { runId, signalId, expectedRunSeq: preview.basedOnSeq, signal } })
      .then(onSent, (cause: unknown) => setFailure(toApiError(cause)))
      .finally(() => setSending(false));
  };
  const refused = error ?? failure;
  return (
    <Dialog title={models.retry.title(stepId)} onClose={onClose}>
      <form onSubmit={onSubmit}>
        <fieldset className={confirm.choice}>
          <legend>{models.retry.modes}</legend>
          {MODES.map((option) => (
            <label key={option} className={confirm.check}>
              <input
                type="radio"
                name="nodes"
                checked={option === mode}
                onChange={() => {
                  setMode(option);
                  setWithout(new Set());
                }}
              />
              {models.retry[option as "FAILED" | "FAILED_AND_THEIR_TESTED_PARENTS"]}
            </label>
          ))}
        </fieldset>
        {set ? (
          <p>{models.retry.would(chosen, set.count)}</p>
        ) : (
          <p>{preview ? preview.reason : error ? "" : models.retry.asking}</p>
        )}
        <ul className={`${css.list} ${css.choose}`} tabIndex={0} aria-label={models.filter}>
          {rows.map(({ uniqueId, name, why, because }) => (
            <li key={uniqueId} data-node={uniqueId}>
              <label className={confirm.check}>
                <input type="checkbox" checked={!without.has(uniqueId)} onChange={() => toggle(uniqueId)} />
                <strong title={uniqueId}>{name}</strong>
                <span className={css.quiet}>{models.retry.why(why, because === null ? null : nodeName(because))}</span>
              </label>
            </li>
          ))}
        </ul>
        {set && set.count > LISTED && <p>{models.retry.more(set.count - LISTED)}</p>}
        <label className={confirm.field}>
          <span>
            {m.confirm.reason} <span className={confirm.hint}>({m.confirm.reasonHint})</span>
          </span>
          <input value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} />
        </label>
        <div role="alert" className={confirm.problem}>
          {refused && (
            <p>
              {refused.message} <code>{refused.code}</code>
            </p>
          )}
          {set && problem !== null && <p>{problem}</p>}
        </div>
        <div className={confirm.buttons}>
          <Button back onClick={onClose}>
            {m.confirm.back}
          </Button>
          <button type="submit" className={confirm.send} disabled={!set || problem !== null || sending}>
            {sending ? m.confirm.sending : models.retry.send(chosen)}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
