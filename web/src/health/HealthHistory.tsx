import { useState } from "react";
import { useViewer } from "../session/viewer";
import { HealthHistoryDocument } from "../api/gen/graphql";
import { useAsked } from "../api/useAsked";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import { Notice } from "../ui/Page";
import { Problem } from "../page/Problem";
import { HealthHistoryView } from "./HealthHistoryView";
import { toHistory } from "./samples";

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
  const [every, setEvery] = useState(FIRST_MS);
  const {
    answer: history,
    error,
    again,
  } = useAsked(
    HealthHistoryDocument,
    {},
    ({ healthHistory }) => {
      setEvery(Math.max(healthHistory.intervalMs, LEAST_MS));
      return toHistory(healthHistory);
    },
    { every },
  );
  return (
    <>
      {error !== null && <Problem error={error} retry={again} />}
      {history?.samples.length === 0 && (
        <Notice title={m.page.nothing}>{m.health.first(Math.ceil(every / 1000))}</Notice>
      )}
      {!(!history && error) && history?.samples.length !== 0 && <HealthHistoryView history={history ?? null} />}
    </>
  );
}
