import type { ReactNode } from "react";
import { m } from "../messages";
import css from "../styles/Confirm.module.css";
import { type Draft, problemOfParams, RERUN_FROM } from "./draft";
import { useRunActions } from "./context";
import type { Intent } from "./intent";
import { RerunParams } from "./RerunParams";
import { ApprovalCount, RunRequest } from "./RunRequest";
import { evidenceOf, type Task } from "./useAvailability";

const LEVELS = ["LOW", "MEDIUM", "HIGH"] as const;
const OUTCOMES = ["SUCCEEDED", "FAILED", "CANCELLED"] as const;
const DECISIONS = ["APPROVE", "REJECT"] as const;
const PATCH_ROWS = 5;
/** The most steps that the field of a first step offers; any other can be typed. */
const MOST_OFFERED = 500;

interface FieldsProps {
  intent: Intent;
  draft: Draft;
  /** The policy does not retry the last error of the step; only force does. */
  denied: boolean;
  /** Why the run can only be rejected now; null when it can be approved too. */
  noApproval?: string | null;
  task: Task | undefined;
  /** The steps of the run, for a rerun from one of them, and whether every one succeeded. */
  steps?: readonly string[];
  succeeded?: boolean;
  change: (part: Partial<Draft>) => void;
}

/** The fields of an action beside its reason. */
export function Fields({
  intent,
  draft,
  denied,
  noApproval = null,
  task,
  steps = [],
  succeeded = false,
  change,
}: FieldsProps) {
  switch (intent.action) {
    case "RETRY_STEP":
      return denied ? <Check label={m.confirm.force} checked={draft.force} set={(force) => change({ force })} /> : null;
    case "UPDATE_PARAMS":
    case "INJECT_OVERRIDE":
      return (
        <label className={css.field}>
          <span>
            {m.confirm.patch[intent.action]} <span className={css.hint}>({m.confirm.patchHint})</span>
          </span>
          <textarea
            className={css.mono}
            rows={PATCH_ROWS}
            spellCheck={false}
            value={draft.patch}
            onChange={(event) => change({ patch: event.target.value })}
          />
        </label>
      );
    case "UPDATE_TARGET":
      return (
        <>
          <Text label={m.confirm.database} value={draft.database} set={(database) => change({ database })} />
          <Text label={m.confirm.schema} value={draft.schema} set={(schema) => change({ schema })} />
        </>
      );
    case "ESCALATE_ALERT":
      return (
        <Choice
          label={m.confirm.level}
          value={draft.level}
          options={LEVELS}
          words={m.confirm.levels}
          set={(level) => change({ level })}
        />
      );
    case "EMERGENCY_STOP":
      return (
        <Choice
          label={m.confirm.how}
          value={draft.force ? "force" : "graceful"}
          options={["graceful", "force"]}
          words={m.confirm.stops}
          set={(how) => change({ force: how === "force" })}
        />
      );
    case "RERUN":
      return (
        <>
          <Choice
            label={m.confirm.again}
            value={draft.from}
            options={RERUN_FROM}
            words={m.confirm.from}
            off={succeeded ? { failed: m.confirm.nothingFailed } : {}}
            set={(from) => change({ from })}
          />
          {draft.from === "step" && (
            <label className={css.field}>
              <span>{m.confirm.fromStep}</span>
              <input
                className={css.mono}
                list="rerun-steps"
                value={draft.step}
                placeholder={intent.stepId ?? ""}
                maxLength={200}
                spellCheck={false}
                autoComplete="off"
                onChange={(event) => change({ step: event.target.value })}
              />
              <datalist id="rerun-steps">
                {steps.slice(0, MOST_OFFERED).map((id) => (
                  <option key={id} value={id}>
                    {id}
                  </option>
                ))}
              </datalist>
            </label>
          )}
          <RerunParams
            runId={intent.runId}
            text={draft.patch}
            change={(patch) => change({ patch })}
            problem={problemOfParams(draft.patch)}
          />
        </>
      );
    case "APPROVE":
      return (
        <>
          <ApprovalOf runId={intent.runId} />
          <Choice
            label={m.inbox.decide}
            value={draft.decision}
            options={DECISIONS}
            words={m.confirm.decisions}
            off={noApproval === null ? {} : { APPROVE: noApproval }}
            set={(decision) => change({ decision })}
          />
        </>
      );
    case "COMPLETE_MANUAL_STEP":
      return (
        <>
          {task?.instructions && <p className={css.instructions}>{task.instructions}</p>}
          <Choice
            label={m.inbox.outcomeLabel}
            value={draft.outcome}
            options={OUTCOMES}
            words={m.inbox.outcome}
            set={(outcome) => change({ outcome })}
          />
          <label className={css.field}>
            <span>
              {m.confirm.evidence}{" "}
              <span className={css.hint}>
                ({m.confirm.evidenceHint}
                {task && evidenceOf(task).length > 0 && `; ${m.confirm.evidenceAsked(evidenceOf(task).join(", "))}`})
              </span>
            </span>
            <textarea rows={2} value={draft.evidence} onChange={(event) => change({ evidence: event.target.value })} />
          </label>
        </>
      );
    default:
      return null;
  }
}

/** The request to approve, and the approvals so far. */
function ApprovalOf({ runId }: { runId: string }) {
  const approval = useRunActions().actions?.approval;
  return (
    <div className={css.facts}>
      {approval && (
        <p>
          <ApprovalCount approval={approval} />
        </p>
      )}
      <RunRequest runId={runId} whole />
    </div>
  );
}

function Check({ label, checked, set }: { label: string; checked: boolean; set: (checked: boolean) => void }) {
  return (
    <label className={css.check}>
      <input type="checkbox" checked={checked} onChange={(event) => set(event.target.checked)} /> {label}
    </label>
  );
}

function Text({ label, value, set }: { label: ReactNode; value: string; set: (value: string) => void }) {
  return (
    <label className={css.field}>
      <span>{label}</span>
      <input value={value} maxLength={200} spellCheck={false} onChange={(event) => set(event.target.value)} />
    </label>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: readonly T[];
  words: Record<T, string>;
  /** Why an option cannot be chosen. */
  off?: Partial<Record<T, string>>;
  set: (value: T) => void;
}

function Choice<T extends string>({ label, value, options, words, off = {}, set }: ChoiceProps<T>) {
  return (
    <fieldset className={css.choice}>
      <legend>{label}</legend>
      {options.map((option) => (
        <label key={option} className={css.check} data-off={off[option] !== undefined || undefined}>
          <input
            type="radio"
            name={label}
            checked={option === value}
            disabled={off[option] !== undefined}
            onChange={() => set(option)}
          />{" "}
          {words[option]} {off[option] !== undefined && <span className={css.hint}>({off[option]})</span>}
        </label>
      ))}
    </fieldset>
  );
}
