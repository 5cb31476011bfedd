import { Link } from "@tanstack/react-router";
import { type DragEvent, type Ref, useId, useState } from "react";
import { RunOriginDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Env, isProduction } from "../ui/Env";
import form from "../styles/Form.module.css";
import type { Draft, Source } from "./draft";
import { SOURCES } from "./draft";
import { KnownPlans } from "./KnownPlans";
import { type LineProblem, PlanEditor, type PlanEditorHandle } from "./PlanEditor";
import css from "./Start.module.css";

/** The length of a whole run id: nothing is asked while somebody types. */
const RUN_ID = 36;
const MOST_BYTES = 4 << 20;
const REF = ["uri", "sha256", "schemaVersion", "planId", "planVersion"] as const;

interface PlanFieldProps {
  draft: Draft;
  change: (change: Partial<Draft>) => void;
  invalid: boolean;
  describedBy: string;
  problems: readonly LineProblem[];
  /** The known plan that is loaded at once, by its id. */
  wanted?: string | undefined;
  /** The text of the plan. */
  ref: Ref<PlanEditorHandle>;
}

/** The plan: pasted, dropped or from a file, by its address, or from an earlier run. */
export function PlanField({ draft, change, invalid, describedBy, problems, wanted, ref }: PlanFieldProps) {
  const [problem, setProblem] = useState<string | null>(null);
  const hint = useId();
  const read = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    if (file.size > MOST_BYTES) setProblem(m.start.fileTooLarge(file.name));
    else {
      const plan = await file.text().catch(() => null);
      setProblem(plan === null ? m.start.fileUnread(file.name) : null);
      if (plan !== null) change({ plan, source: "inline" });
    }
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    void read(event.dataTransfer.files[0]);
  };
  const choose = (source: Source): void => change({ source });
  return (
    <section className={css.part}>
      <div className={css.partHead}>
        <h2>1 {m.start.parts.plan}</h2>
        <div role="group" aria-label={m.start.source} className={css.sources}>
          {SOURCES.map((source) => (
            <Button key={source} kind="quiet" pressed={draft.source === source} onClick={() => choose(source)}>
              {m.start.sources[source]}
            </Button>
          ))}
        </div>
      </div>
      {draft.source === "inline" && (
        <>
          <KnownPlans choose={change} wanted={wanted} />
          <div className={css.field}>
            {m.start.plan} <span className={css.hint}>{m.start.planHint}</span>
          </div>
          <PlanEditor
            ref={ref}
            text={draft.plan}
            change={(plan) => change({ plan })}
            problems={problems}
            invalid={invalid}
            describedBy={`${hint} ${describedBy}`}
            onDrop={drop}
          />
          <label className={css.file}>
            {m.start.file}{" "}
            <input
              type="file"
              accept="application/json,.json,.yaml,.yml"
              // Lets the person choose the same file again after a change.
              onClick={(event) => (event.currentTarget.value = "")}
              onChange={(event) => void read(event.target.files?.[0])}
            />
          </label>
          <p id={hint} role={problem === null ? undefined : "alert"} className={css.hint}>
            {problem ?? m.start.dropHint}
          </p>
        </>
      )}
      {draft.source === "ref" && (
        <div className={css.grid}>
          {REF.map((name) => (
            <label key={name} className={form.field} data-wide={name === "uri" || name === "sha256" || undefined}>
              <span>{m.start.ref[name]}</span>
              <input
                value={draft.ref[name]}
                maxLength={1024}
                spellCheck={false}
                onChange={(event) => change({ ref: { ...draft.ref, [name]: event.target.value.trim() } })}
              />
            </label>
          ))}
        </div>
      )}
      {draft.source === "run" && (
        <>
          <label className={form.field}>
            <span>{m.start.fromRun}</span>
            <input
              value={draft.from}
              maxLength={128}
              spellCheck={false}
              onChange={(event) => change({ from: event.target.value.trim() })}
            />
          </label>
          <Origin runId={draft.from} />
          <p className={css.hint}>{m.start.fromRunMeans}</p>
        </>
      )}
    </section>
  );
}

/** The plan of the run and where it ran, because the new run starts there. Production is a band, as in the form. */
function Origin({ runId }: { runId: string }) {
  const { answer } = useQuery(RunOriginDocument, runId.length === RUN_ID ? { runId } : null, ({ run }) => run ?? null);
  if (!answer) return null;
  const { projectId, environmentId, plan } = answer;
  return (
    <>
      {isProduction(environmentId) && (
        <p className={css.band} data-testid="production">
          {m.start.production(environmentId.toUpperCase())}
        </p>
      )}
      <p data-testid="origin">
        <Link to="/runs/$runId" params={{ runId }}>
          {plan.planId}@{plan.planVersion}
        </Link>{" "}
        · {projectId} / <Env id={environmentId} />
      </p>
    </>
  );
}
