import { useViewer } from "../session/viewer";
import { HealthHistoryDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { health as healthMessages } from "../messages/health";
import css from "../styles/Form.module.css";
import { Notice } from "../ui/Page";
import { Problem } from "../page/Problem";
import { HealthHistoryView } from "./HealthHistoryView";
import { toHistory } from "./samples";

const FIRST_MS = 15_000;
const LEAST_MS = 1_000;

/** The measurements of the server that answers, for viewers with the right DEBUG. */
export function HealthHistory() {
  const { actions } = useViewer();
  return (
    <section className={css.section}>
      <h2>{healthMessages.history}</h2>
      {actions.has("DEBUG") ? <Measured /> : <p className={css.hint}>{healthMessages.notYours}</p>}
    </section>
  );
}

/** The interval at which the server measures, in milliseconds. */
function everyMs(interval: number | undefined): number {
  return interval === undefined ? FIRST_MS : Math.max(interval, LEAST_MS);
}

function Measured() {
  const { answer, error, again } = useQuery(
    HealthHistoryDocument,
    {},
    ({ healthHistory }) => ({ samples: toHistory(healthHistory), intervalMs: healthHistory.intervalMs }),
    { every: (result) => everyMs(result?.healthHistory.intervalMs) },
  );
  const history = answer?.samples;
  return (
    <>
      {error !== null && <Problem error={error} retry={again} />}
      {history?.samples.length === 0 && (
        <Notice title={m.page.nothing}>{healthMessages.first(Math.ceil(everyMs(answer?.intervalMs) / 1000))}</Notice>
      )}
      {!(!history && error) && history?.samples.length !== 0 && <HealthHistoryView history={history ?? null} />}
    </>
  );
}
