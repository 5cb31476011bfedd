import { useEffect, useState } from "react";
import { useViewer } from "../actions/context";
import { HealthHistoryDocument } from "../api/gen/graphql";
import { ApiError, request } from "../api/request";
import { whileSeen } from "../api/whileSeen";
import { m } from "../messages";
import css from "../ui/Form.module.css";
import { Notice, Problem } from "../ui/Page";
import { HealthHistoryView } from "./HealthHistoryView";
import { type History, toHistory } from "./samples";

const FIRST_MS = 15_000;
const LEAST_MS = 1_000;

/** What the server that answers has measured of itself, asked for as often as it measures; for those who may see it. */
export function HealthHistory() {
  const { actions } = useViewer();
  return (
    <section className={css.section}>
      <h2>{m.health.history}</h2>
      {actions.has("DEBUG") ? <Asked /> : <p className={css.hint}>{m.health.notYours}</p>}
    </section>
  );
}

function Asked() {
  const [history, setHistory] = useState<History | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [attempt, setAttempt] = useState(0);
  const every = Math.max(history?.intervalMs ?? FIRST_MS, LEAST_MS);
  const forbidden = error instanceof ApiError && error.code === "FORBIDDEN";
  useEffect(() => {
    if (forbidden) return; // It stays so, and each question is one more denial in the audit.
    const abort = new AbortController();
    const ask = (): void => {
      request(HealthHistoryDocument, {}, abort.signal).then(
        (result) => {
          setHistory(toHistory(result.healthHistory));
          setError(null);
        },
        (cause: unknown) => {
          if (!abort.signal.aborted) setError(cause);
        },
      );
    };
    ask();
    const stop = whileSeen(every, ask);
    return () => {
      stop();
      abort.abort();
    };
  }, [every, attempt, forbidden]);
  return (
    <>
      {error !== null && <Problem error={error} retry={() => setAttempt(attempt + 1)} />}
      {history?.samples.length === 0 && <Notice title={m.page.nothing}>{m.health.first(Math.ceil(every / 1000))}</Notice>}
      {!(history === null && error !== null) && history?.samples.length !== 0 && <HealthHistoryView history={history} />}
    </>
  );
}
