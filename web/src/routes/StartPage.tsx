import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { newId } from "../actions/intent";
import { StartRunDocument } from "../api/gen/graphql";
import { ApiError, request } from "../api/request";
import { m } from "../messages";
import { useDocumentStatus } from "../ui/documentStatus";
import css from "./StartPage.module.css";

export function StartPage() {
  useDocumentStatus(m.start.title);
  const navigate = useNavigate();
  // Minted when the form opens: a double click or a second try is still one run.
  const [runRequestId, setRequestId] = useState(() => `ui-${newId()}`);
  const [plan, setPlan] = useState("");
  const [projectId, setProject] = useState("shop");
  const [environmentId, setEnvironment] = useState("dev");
  const [error, setError] = useState<ApiError | null>(null);
  const [sending, setSending] = useState(false);

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (sending) return;
    let inline: unknown;
    try {
      inline = JSON.parse(plan);
    } catch (cause) {
      setError(new ApiError(`${m.start.notJson} ${cause instanceof Error ? cause.message : String(cause)}`, { code: "BAD_USER_INPUT" }));
      return;
    }
    setSending(true);
    setError(null);
    request(StartRunDocument, { input: { plan: { inline }, runRequestId, projectId, environmentId } })
      .then(({ startRun }) => navigate({ to: "/runs/$runId", params: { runId: startRun.run.runId } }))
      .catch((cause: unknown) => {
        setError(cause instanceof ApiError ? cause : new ApiError(String(cause)));
        setSending(false);
      });
  };
  const edit = (text: string): void => {
    setPlan(text);
    // Another plan is another request.
    setRequestId(`ui-${newId()}`);
  };

  return (
    <form className={css.form} onSubmit={submit}>
      <h1>{m.start.title}</h1>
      <label className={css.field}>
        {m.start.plan} <span className={css.hint}>{m.start.planHint}</span>
        <textarea className={css.plan} rows={18} spellCheck={false} required value={plan} onChange={(event) => edit(event.target.value)} />
      </label>
      <div className={css.where}>
        <label className={css.field}>
          {m.start.project}
          <input required maxLength={128} value={projectId} onChange={(event) => setProject(event.target.value)} />
        </label>
        <label className={css.field}>
          {m.start.environment}
          <input required maxLength={128} value={environmentId} onChange={(event) => setEnvironment(event.target.value)} />
        </label>
      </div>
      <div role="alert" className={css.problem}>
        {error && (
          <p>
            {error.message} <code>{error.code}</code>
          </p>
        )}
        {error && error.violations.length > 0 && (
          <>
            <p>{m.start.problems(error.violations.length)}:</p>
            <ul className={css.violations}>
              {error.violations.map((violation) => (
                <li key={`${violation.path} ${violation.code}`}>
                  <code>{violation.path}</code>: {violation.message}
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
      <button type="submit" className={css.submit} disabled={sending}>
        {sending ? m.confirm.sending : m.start.submit}
      </button>
    </form>
  );
}
