import { getRouteApi, Link, useRouter } from "@tanstack/react-router";
import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import { useMay } from "../session/MayNot";
import { RerunRunDocument, StartRunDocument } from "../api/gen/graphql";
import { ApiError } from "../api/error";
import { request } from "../api/request";
import { m } from "../messages";
import { CheckPanel } from "../start/CheckPanel";
import { type Draft, edited, hasInput, keepDraft, keptDraft, newDraft, scopeOf, toAsked } from "../start/draft";
import { ParamsField } from "../start/ParamsField";
import { PlanField } from "../start/PlanField";
import css from "../start/Start.module.css";
import { useCheck } from "../start/useCheck";
import { explainRefusal } from "../start/words";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { isProduction } from "../ui/Env";
import form from "../styles/Form.module.css";
import { shortId } from "../format/format";
import { useSending } from "../forms/useSending";
import { ViolationList, Wrong, wrongProps, wrongWith } from "../forms/Violations";
import { FIRST, firstPlan } from "../start/firstPlan";
import { lineOf, locate } from "../start/language";
import type { PlanEditorHandle } from "../start/PlanEditor";
import { Steps } from "../start/Steps";
import { useViewer } from "../session/viewer";

const route = getRouteApi("/start");
/** The fields beside the plan that a violation can be about. */
const FIELDS = ["projectId", "environmentId"] as const;
const PRIORITIES = Array.from({ length: 10 }, (_, priority) => 9 - priority);

export function StartPage() {
  const { __TSR_key: place = "" } = useRouter().history.location.state;
  // One form for each entry of the history: a reload and the way back find it again, a new visit starts another.
  const [at] = useState(place);
  useDocumentStatus(m.start.title);
  const navigate = route.useNavigate();
  const { from, project = "", env = "", plan } = route.useSearch();
  const { tenantId, places } = useViewer();
  const fresh = (): Draft =>
    newDraft(at, {
      source: from ? "run" : "inline",
      from: from ?? "",
      projectId: project,
      environmentId: env,
      ...(plan === "first" ? { plan: firstPlan(tenantId), projectId: FIRST.project, environmentId: FIRST.env } : {}),
    });
  const [was] = useState(() => keptDraft(sessionStorage, at));
  const [draft, setDraft] = useState<Draft>(() => was ?? fresh());
  const [kept, setKept] = useState(was !== null && was.started === null && hasInput(was, fresh()));
  const [raw, setRaw] = useState(false);
  const { error, setError, refusal, send } = useSending();
  const planText = useRef<PlanEditorHandle>(null);
  const fields = useRef<HTMLElement>(null);
  const problems = useRef<HTMLDivElement>(null);
  const id = useId();
  useEffect(() => keepDraft(sessionStorage, draft), [draft]);
  const asked = toAsked(draft);
  const check = useCheck(asked);
  // Known before the form has anything to ask the server.
  const may = useMay("START");
  const early = "missing" in asked || "problem" in asked ? may.refusal : null;
  const planProblem = "problem" in asked && asked.problem.field === "plan" ? asked.problem.text : null;
  const shown = error ?? check.error;
  const violations = shown?.violations ?? [];
  const lineProblems = [
    ...("problem" in asked && asked.problem.line ? [{ line: asked.problem.line, message: asked.problem.text }] : []),
    ...violations.flatMap(({ path, message }) => {
      const found = draft.source === "inline" ? locate(draft.plan, path) : null;
      return found ? [{ line: lineOf(draft.plan, found[0]), message: `${path}: ${message}` }] : [];
    }),
  ];
  const refused = check.preview && check.preview.outcome !== "APPLY" ? explainRefusal(check.preview) : null;
  const change = (part: Partial<Draft>): void => {
    setError(null);
    const scope = part.plan === undefined ? null : scopeOf(part.plan);
    setDraft((old) => edited(old, { ...part, ...scope }));
  };
  const wrong = (path: string): string | null => wrongWith(violations, path);
  const goTo = (path: string): boolean => {
    const field = FIELDS.find((name) => path === name);
    const input = field && fields.current?.querySelector<HTMLElement>(`[name="${field}"]`);
    input?.focus();
    if (input) return true;
    const at = locate(draft.plan, path);
    if (at) planText.current?.select(...at);
    return at !== null;
  };
  const latest = useRef(goTo);
  latest.current = goTo;
  // After a click the focus moves to the first problem.
  useEffect(() => {
    if (error && !error.violations.some(({ path }) => latest.current(path))) problems.current?.focus();
  }, [error]);

  const open = (runId: string): void => void navigate({ to: "/runs/$runId", params: { runId } });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (draft.started !== null) return;
    if ("missing" in asked || "problem" in asked) {
      setError(new ApiError("missing" in asked ? asked.missing : asked.problem.text, { code: "BAD_USER_INPUT" }));
      return;
    }
    send(async () => {
      const { run } =
        "start" in asked
          ? (await request(StartRunDocument, { input: asked.start })).startRun
          : (await request(RerunRunDocument, { input: asked.rerun })).rerun;
      keepDraft(sessionStorage, { ...draft, started: run.runId });
      open(run.runId);
    });
  };
  const production = draft.source !== "run" && isProduction(draft.environmentId);

  return (
    <form
      className={css.form}
      onSubmit={submit}
      noValidate
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) event.currentTarget.requestSubmit();
      }}
    >
      <h1>{m.start.title}</h1>
      {may.refusal !== null && (
        <p className={css.mayNot} role="status">
          {may.refusal}
        </p>
      )}
      {draft.started !== null && (
        <p className={css.started} role="status">
          {m.start.already(shortId(draft.started))}
          <Link to="/runs/$runId" params={{ runId: draft.started }}>
            {m.start.openIt}
          </Link>
          <Button onClick={() => setDraft(edited(draft, {}))}>{m.start.another}</Button>
        </p>
      )}
      {kept && (
        <p className={css.started} role="status">
          {m.start.kept}
          <Button
            onClick={() => {
              setKept(false);
              setError(null);
              setDraft(fresh());
            }}
          >
            {m.start.clear}
          </Button>
        </p>
      )}
      <PlanField
        draft={draft}
        change={change}
        invalid={planProblem !== null || violations.length > 0}
        problems={lineProblems}
        describedBy={id}
        wanted={was === null && plan !== "first" ? plan : undefined}
        ref={planText}
      />
      <div id={id} ref={problems} tabIndex={-1} role="alert" className={css.problem}>
        {planProblem !== null && !error && <p>{planProblem}</p>}
        {error && (
          <p>
            {error.message} <code>{error.code}</code> {error.whoCould.length > 0 && m.denied.could(error.whoCould)}
          </p>
        )}
        {violations.length > 0 && (
          <>
            <p>
              {m.start.problems(violations.length)} {!error && shown && <code>{shown.code}</code>}
            </p>
            <ViolationList violations={violations} goTo={goTo} />
          </>
        )}
      </div>
      {draft.source === "inline" && "start" in asked && <Steps document={asked.start.plan.inline} />}
      {draft.source !== "run" && (
        <>
          <section ref={fields} className={css.part} data-production={production || undefined}>
            <h2>2 {m.start.parts.where}</h2>
            {production && <p className={css.band}>{m.start.production(draft.environmentId.toUpperCase())}</p>}
            <div className={css.grid}>
              <label className={form.field}>
                <span>{m.start.project}</span>
                <input
                  name="projectId"
                  list={`${id}projects`}
                  autoComplete="off"
                  maxLength={128}
                  value={draft.projectId}
                  spellCheck={false}
                  {...wrongProps(`${id}project`, wrong("projectId"))}
                  onChange={(event) => change({ projectId: event.target.value })}
                />
                <Names id={`${id}projects`} names={places.map((place) => place.projectId)} />
                <Wrong id={`${id}project`} text={wrong("projectId")} />
              </label>
              <label className={form.field}>
                <span>{m.start.environment}</span>
                <input
                  name="environmentId"
                  list={`${id}environments`}
                  autoComplete="off"
                  maxLength={128}
                  value={draft.environmentId}
                  spellCheck={false}
                  {...wrongProps(`${id}environment`, wrong("environmentId"))}
                  onChange={(event) => change({ environmentId: event.target.value })}
                />
                <Names
                  id={`${id}environments`}
                  names={places
                    .filter((place) => draft.projectId === "" || place.projectId === draft.projectId)
                    .map((place) => place.environmentId)}
                />
                <Wrong id={`${id}environment`} text={wrong("environmentId")} />
              </label>
              <label className={form.field}>
                <span>{m.start.priority}</span>
                <select
                  name="priority"
                  value={draft.priority}
                  aria-describedby={`${id}priority`}
                  onChange={(event) => change({ priority: Number(event.target.value) })}
                >
                  {PRIORITIES.map((priority) => (
                    <option key={priority} value={priority}>
                      {priority}
                    </option>
                  ))}
                </select>
              </label>
            </div>
            <p id={`${id}priority`} className={css.hint}>
              {m.start.priorityMeans}
            </p>
          </section>
          <ParamsField
            text={draft.params}
            change={(params) => change({ params })}
            raw={raw}
            setRaw={setRaw}
            problem={"problem" in asked && asked.problem.field === "params" ? asked.problem.text : wrong("params")}
          />
        </>
      )}
      <CheckPanel
        no={draft.source === "run" ? 2 : 4}
        check={check}
        missing={early ?? ("missing" in asked ? asked.missing : null) ?? ("problem" in asked ? m.start.correct : null)}
        projectId={draft.projectId}
        rerun={draft.source === "run"}
      />
      <p className={css.end}>
        <Button
          kind="primary"
          type="submit"
          refusal={refusal ?? (draft.started !== null ? m.start.already(shortId(draft.started)) : (early ?? refused))}
        >
          {refusal ?? m.start.submit}
        </Button>
        <kbd>{m.start.sendKey}</kbd>
      </p>
    </form>
  );
}

/** Names that a field offers; it takes any other text too. */
function Names({ id, names }: { id: string; names: readonly string[] }) {
  return (
    <datalist id={id}>
      {[...new Set(names)].toSorted().map((name) => (
        <option key={name} value={name} aria-label={name} />
      ))}
    </datalist>
  );
}
