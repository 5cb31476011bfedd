// The form of a new run, kept in this tab over a reload.
import * as z from "zod/mini";
import { newId } from "../api/newId";
import type { PlanRefInput, RerunInput, StartRunInput } from "../api/gen/graphql";
import { m } from "../messages";
import { lineOf, planOf } from "./language";

export const SOURCES = ["inline", "ref", "run"] as const;
export type Source = (typeof SOURCES)[number];

const stored = z.object({
  /** The entry of the browser's history that the form belongs to. */
  at: z.string(),
  runRequestId: z.string(),
  source: z.enum(SOURCES),
  /** The plan as YAML or JSON. */
  plan: z.string(),
  ref: z.object({
    uri: z.string(),
    sha256: z.string(),
    schemaVersion: z.string(),
    planId: z.string(),
    planVersion: z.string(),
  }),
  /** The run whose plan is started again. */
  from: z.string(),
  projectId: z.string(),
  environmentId: z.string(),
  params: z.string(),
  /** From 0 to 9: while runs wait, a higher one starts first within its project. */
  priority: z.number(),
  /** The run that this form has started; null before. */
  started: z.nullable(z.string()),
});
export type Draft = z.infer<typeof stored>;

export const USUAL_PRIORITY = 5;
const KEY = "dvt.start";
const MOST = 1 << 20;

function newRequestId(): string {
  return `ui-${newId()}`;
}

export function newDraft(at: string, given: Partial<Draft> = {}): Draft {
  return {
    at,
    runRequestId: newRequestId(),
    source: "inline",
    plan: "",
    ref: { uri: "", sha256: "", schemaVersion: "v1.2", planId: "", planVersion: "" },
    from: "",
    projectId: "",
    environmentId: "",
    params: "",
    priority: USUAL_PRIORITY,
    started: null,
    ...given,
  };
}

/** The draft of this history entry; null when the last draft belongs to another. */
export function keptDraft(storage: Pick<Storage, "getItem">, at: string): Draft | null {
  try {
    const parsed = stored.safeParse(JSON.parse(storage.getItem(KEY) ?? "null"));
    return parsed.success && parsed.data.at === at ? parsed.data : null;
  } catch {
    return null;
  }
}

/** Whether a person has written into the draft: it differs from the one that the address gives. */
export function hasInput(draft: Draft, fresh: Draft): boolean {
  const written = ({ source, plan, ref, from, projectId, environmentId, params, priority }: Draft): string =>
    JSON.stringify([source, plan, ref, from, projectId, environmentId, params, priority]);
  return written(draft) !== written(fresh);
}

/** Plans above 1 MiB are not kept. */
export function keepDraft(storage: Pick<Storage, "setItem">, draft: Draft): void {
  const text = JSON.stringify(draft);
  if (text.length <= MOST) storage.setItem(KEY, text);
}

/** Changes the draft. Once it has started a run, the changed draft is a new request. */
export function edited(draft: Draft, change: Partial<Draft>): Draft {
  const next = { ...draft, ...change };
  return draft.started === null ? next : { ...next, started: null, runRequestId: newRequestId() };
}

export type StartAsked =
  | { start: StartRunInput }
  | { rerun: RerunInput }
  | { problem: { field: "plan" | "params"; text: string; line?: number } }
  | { missing: string };

function json(text: string): { value: unknown } | { text: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (cause) {
    return { text: `${m.start.notJson} ${cause instanceof Error ? cause.message : String(cause)}` };
  }
}

/** The request of the form, or the reason why there is none. */
export function toAsked(draft: Draft): StartAsked {
  const { source, runRequestId, projectId, environmentId } = draft;
  if (source === "run")
    return draft.from.trim() === ""
      ? { missing: m.start.noRun }
      : { rerun: { runId: draft.from.trim(), runRequestId, from: { start: true } } };
  if (source === "inline" && draft.plan.trim() === "") return { missing: m.start.noPlan };
  const plan = source === "inline" ? planOf(draft.plan) : null;
  if (plan && "problem" in plan) {
    const line = lineOf(draft.plan, plan.problem.at[0]);
    return { problem: { field: "plan", text: m.start.notAPlan(line, plan.problem.message), line } };
  }
  const ref: PlanRefInput = draft.ref;
  if (source === "ref" && Object.values(draft.ref).some((part) => part.trim() === ""))
    return { missing: m.start.noRef };
  const params = draft.params.trim() === "" ? null : json(draft.params);
  if (params && "text" in params) return { problem: { field: "params", text: params.text } };
  if (projectId.trim() === "" || environmentId.trim() === "") return { missing: m.start.noPlace };
  return {
    start: {
      plan: plan ? { inline: plan.value } : { ref },
      runRequestId,
      projectId: projectId.trim(),
      environmentId: environmentId.trim(),
      ...(draft.priority === USUAL_PRIORITY ? {} : { priority: draft.priority }),
      ...(params ? { params: params.value } : {}),
    },
  };
}

const scoped = z.object({ scope: z.object({ projectId: z.string(), environmentId: z.string() }) });

/** The project and environment in the plan's scope; null when it has none. */
export function scopeOf(plan: string): { projectId: string; environmentId: string } | null {
  const document = planOf(plan);
  const parsed = "value" in document ? scoped.safeParse(document.value) : null;
  return parsed?.success
    ? { projectId: parsed.data.scope.projectId, environmentId: parsed.data.scope.environmentId }
    : null;
}
