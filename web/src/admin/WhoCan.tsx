import { type FormEvent, useId, useState } from "react";
import { useViewer } from "../session/viewer";
import { type Action, RunByStartDocument, WhoCouldDocument } from "../api/gen/graphql";
import { ApiError } from "../api/error";
import { request } from "../api/request";
import { m } from "../messages";
import { Button } from "../ui/Button";
import css from "../styles/Form.module.css";
import { Violations } from "../forms/Violations";

/** The actions that one can ask about. */
const ACTIONS = [
  "READ",
  "START",
  "PAUSE",
  "RESUME",
  "RETRY_STEP",
  "SKIP_STEP",
  "CANCEL",
  "EMERGENCY_STOP",
  "RERUN",
  "APPROVE",
  "COMPLETE_MANUAL_STEP",
  "ANNOTATE",
  "INJECT_OVERRIDE",
  "UPDATE_PARAMS",
  "UPDATE_TARGET",
] as const satisfies readonly Action[];

/** The place that a person typed: a project with its environment, or a run by its id or the start of it. */
async function placeOf(on: string, projects: readonly string[]) {
  const [name = "", environmentId] = on.split("/", 2);
  if (environmentId !== undefined) return { projectId: name.trim(), environmentId: environmentId.trim() };
  if (projects.includes(name)) throw new ApiError(m.policy.giveEnvironment(name), { code: "BAD_USER_INPUT" });
  const { runs } = await request(RunByStartDocument, { text: name });
  const found = runs.edges.map(({ node }) => node.runId).filter((runId) => runId.startsWith(name));
  const [only] = found;
  if (only === undefined) throw new ApiError(m.policy.noRun(name), { code: "NOT_FOUND" });
  if (found.length > 1) throw new ApiError(m.policy.severalRuns(name), { code: "BAD_USER_INPUT" });
  return { runId: only };
}

/** Asks the policy who could do something, so that nobody has to read it. */
export function WhoCan() {
  const viewer = useViewer();
  const places = useId();
  const [answer, setAnswer] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const action = ACTIONS.find((known) => known === form.get("action")) ?? "READ";
    const on = String(form.get("on") ?? "").trim();
    setError(null);
    placeOf(
      on,
      viewer.places.map(({ projectId }) => projectId),
    )
      .then((place) => request(WhoCouldDocument, { action, ...place }))
      .then(
        ({ whoCould }) => setAnswer(m.policy.who(m.action[action], whoCould.join(", "))),
        (cause: unknown) => {
          setAnswer(null);
          setError(cause instanceof ApiError ? cause : new ApiError(String(cause)));
        },
      );
  };
  return (
    <section className={css.section}>
      <h2>{m.policy.whoCan}</h2>
      <form className={css.row} onSubmit={submit}>
        <label className={css.field}>
          <span>{m.policy.action}</span>
          <select name="action" defaultValue="RETRY_STEP">
            {ACTIONS.map((action) => (
              <option key={action} value={action}>
                {m.action[action]}
              </option>
            ))}
          </select>
        </label>
        <label className={css.field}>
          <span>{m.policy.on}</span>
          <input name="on" list={places} required maxLength={257} autoComplete="off" spellCheck={false} />
          <datalist id={places}>
            {viewer.places.map(({ projectId, environmentId }) => (
              <option key={`${projectId}/${environmentId}`}>
                {projectId}/{environmentId}
              </option>
            ))}
          </datalist>
        </label>
        <Button type="submit">{m.policy.ask}</Button>
      </form>
      <p role="status">{answer}</p>
      <Violations error={error} />
    </section>
  );
}
