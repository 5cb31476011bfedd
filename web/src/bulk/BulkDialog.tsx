import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { problemOfParams, RERUN_FROM, rerunFrom, rerunParams } from "../actions/draft";
import { RerunParams } from "../actions/RerunParams";
import { newId } from "../api/newId";
import { type BulkRunsInput, SignalRunsDocument } from "../api/gen/graphql";
import { request } from "../api/request";
import { CopyAs } from "../copyas/CopyAs";
import { shortId } from "../format/format";
import { ParamsEditor } from "../forms/ParamsEditor";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import css from "../styles/Form.module.css";
import { useSending } from "../forms/useSending";
import { Violations } from "../forms/Violations";
import send from "../styles/Confirm.module.css";
import { type BulkAction, irreversible, toBulkInput } from "./action";
import { BulkPreview } from "./BulkPreview";
import { useBulkPreview } from "./useBulkPreview";

const TYPED_ABOVE = 10;

interface BulkDialogProps {
  action: BulkAction;
  runs: BulkRunsInput;
  onClose: () => void;
}

/**
 * Previews a bulk action and takes a reason. Above ten runs, and for final actions, the person types the number of
 * runs.
 */
export function BulkDialog({ action: first, runs, onClose }: BulkDialogProps) {
  const navigate = useNavigate();
  const [action, setAction] = useState(first);
  // One request id, so that sending it again starts no second bulk.
  const [requestId] = useState(() => `ui-${newId()}`);
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const { error, refusal, send: sendOnce } = useSending();
  const built = toBulkInput(action, "-");
  const asked = "input" in built ? { action: built.input, runs } : null;
  const { answer: preview = null, last, error: failed, again } = useBulkPreview(asked);
  const total = preview?.count ?? null;
  const left = preview?.excluded.find(({ code }) => code === "ALREADY_RERUN")?.count ?? 0;
  // The number stands beside the choice also after it was made, when the server leaves out none.
  const [rerun, setRerun] = useState(0);
  if (left > 0 && left !== rerun) setRerun(left);
  // Typing does not change the set of runs, so the title keeps the number that was counted last.
  const counted = total ?? last?.count ?? null;
  const strong = irreversible(action.kind) || (total ?? 0) > TYPED_ABOVE;
  const moved = error?.code === "BULK_MOVED";
  const complete =
    reason.trim() !== "" && total !== null && total > 0 && (!strong || typed === String(total)) && asked !== null;
  const label = m.bulk.verb(action.kind, counted === null ? m.bulk.many : m.bulk.runs(counted));

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const ready = toBulkInput(action, reason.trim());
    if (!complete || total === null || !("input" in ready)) return;
    const input = {
      requestId,
      runs,
      action: ready.input,
      reason: reason.trim(),
      expectedCount: total,
    };
    sendOnce(
      () =>
        request(SignalRunsDocument, { input }).then(({ signalRuns }) =>
          navigate({ to: "/bulk/$id", params: { id: signalRuns.bulk.id }, state: { sent: true } }),
        ),
      ({ code }) => {
        if (code !== "BULK_MOVED") return;
        setTyped("");
        again();
      },
    );
  };

  return (
    <Dialog title={label} onClose={onClose} alert={strong}>
      <form
        className={css.stack}
        onSubmit={submit}
        onKeyDown={(event) => {
          // Enter alone does not send a final action.
          if (
            event.key === "Enter" &&
            strong &&
            event.target instanceof HTMLInputElement &&
            !event.metaKey &&
            !event.ctrlKey
          )
            event.preventDefault();
        }}
      >
        {action.kind === "RETRY_STEP" && (
          <label className={css.field}>
            <span>{m.bulk.whichStep}</span>
            <input
              value={action.stepId}
              required
              maxLength={200}
              spellCheck={false}
              onChange={(event) => setAction({ ...action, stepId: event.target.value.trim() })}
            />
          </label>
        )}
        {action.kind === "RERUN" && <RerunFields action={action} change={setAction} runs={runs} />}
        {action.kind === "RERUN" && (rerun > 0 || action.alreadyRerun) && (
          <label className={send.check}>
            <input
              type="checkbox"
              checked={action.alreadyRerun}
              onChange={(event) => setAction({ ...action, alreadyRerun: event.target.checked })}
            />{" "}
            {m.bulk.alreadyRerun(rerun)}
          </label>
        )}
        <BulkPreview
          preview={preview}
          error={failed}
          missing={"missing" in built ? built.missing : null}
          rerun={action.kind === "RERUN"}
        />
        <label className={css.field}>
          <span>
            {m.confirm.reason} ({m.confirm.required})
          </span>
          <input value={reason} maxLength={1000} required onChange={(event) => setReason(event.target.value)} />
        </label>
        {strong && total !== null && total > 0 && (
          <label className={css.field}>
            <span>{m.bulk.typeCount(String(total))}</span>
            <input
              inputMode="numeric"
              value={typed}
              autoComplete="off"
              onChange={(event) => setTyped(event.target.value)}
            />
          </label>
        )}
        {moved ? <p role="alert">{m.bulk.moved}</p> : <Violations error={error} />}
        {action.kind === "RERUN" && runs.ids && <CopyRerun action={action} ids={runs.ids} reason={reason.trim()} />}
        <div className={css.buttons}>
          <Button back onClick={onClose}>
            {irreversible(action.kind) ? m.confirm.keep : m.confirm.back}
          </Button>
          <button
            type="submit"
            className={send.send}
            data-danger={strong || undefined}
            disabled={refusal !== null || !complete}
          >
            {refusal ?? label}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** The rerun for a terminal or a program. A filter has no short form, so only named runs are offered. */
function CopyRerun({ action, ids, reason }: { action: BulkAction; ids: readonly string[]; reason: string }) {
  const params = rerunParams(action.params);
  return (
    <CopyAs
      subject={{
        of: "rerun",
        runIds: ids,
        from: rerunFrom(action.from, action.stepId),
        params: "value" in params ? params.value : null,
        reason,
      }}
    />
  );
}

interface RerunFieldsProps {
  action: BulkAction;
  change: (action: BulkAction) => void;
  runs: BulkRunsInput;
}

/** What of each run runs again, and with which parameters. */
function RerunFields({ action, change, runs }: RerunFieldsProps) {
  const [same, setSame] = useState(action.params !== "");
  const setParams = (params: string): void => change({ ...action, params });
  const [first = null] = runs.ids ?? [];
  const problem = problemOfParams(action.params);
  return (
    <>
      <fieldset className={send.choice}>
        <legend>{m.confirm.again}</legend>
        {RERUN_FROM.map((from) => (
          <label key={from} className={send.check}>
            <input
              type="radio"
              name="from"
              checked={action.from === from}
              onChange={() => change({ ...action, from })}
            />{" "}
            {m.confirm.from[from]}
          </label>
        ))}
      </fieldset>
      {action.from === "step" && (
        <label className={css.field}>
          <span>{m.confirm.fromStep}</span>
          <input
            value={action.stepId}
            maxLength={200}
            spellCheck={false}
            onChange={(event) => change({ ...action, stepId: event.target.value.trim() })}
          />
        </label>
      )}
      <fieldset className={send.choice}>
        <legend>{m.bulk.params}</legend>
        {[false, true].map((all) => (
          <label key={String(all)} className={send.check}>
            <input
              type="radio"
              name="params"
              checked={same === all}
              onChange={() => {
                setSame(all);
                if (!all) setParams("");
              }}
            />{" "}
            {all ? m.bulk.sameParams : m.bulk.ownParams}
          </label>
        ))}
      </fieldset>
      {same &&
        (first === null ? (
          <ParamsEditor
            text={action.params}
            change={setParams}
            raw={false}
            label={m.start.paramsJson}
            problem={problem}
          />
        ) : (
          <RerunParams
            runId={first}
            text={action.params}
            change={setParams}
            problem={problem}
            legend={m.bulk.paramsOf(shortId(first))}
          />
        ))}
    </>
  );
}
