import { useState } from "react";
import { AlertSilencesDocument, type AlertSilencesQuery, EndSilenceDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { ReasonDialog } from "../forms/ReasonDialog";
import { shortId } from "../format/format";
import { alerts as words } from "../messages/alerts";
import { Problem } from "../page/Problem";
import { Button } from "../ui/Button";
import { Time } from "../ui/Time";
import css from "./Alerts.module.css";

type Silence = AlertSilencesQuery["alertSilences"][number];

function nameOf({ code, projectId, planId, runId }: Silence): string {
  const parts = [
    code === null ? null : words.code(code),
    projectId === null ? null : words.project(projectId),
    planId === null ? null : words.plan(planId),
    runId === null ? null : words.run(shortId(runId)),
  ].filter((part) => part !== null);
  return parts.length === 0 ? words.everything : parts.join(", ");
}

/** The silences that have not ended. `version` changes when they may have changed. */
export function Silences({ version, changed }: { version: number; changed: () => void }) {
  const { last, error, again } = useQuery(AlertSilencesDocument, {}, ({ alertSilences }) => alertSilences, {
    refetchOn: version,
  });
  const [ending, setEnding] = useState<{ silence: Silence; requestId: string } | null>(null);
  const end = async (): Promise<void> => {
    if (ending === null) return;
    await request(EndSilenceDocument, { input: { id: ending.silence.id, requestId: ending.requestId } });
    changed();
  };
  if (error !== null) return <Problem error={error} retry={again} />;
  if (last === undefined || (last.length === 0 && ending === null)) return null;
  return (
    <section className={css.section}>
      <h2>{words.silences}</h2>
      <ul className={css.list}>
        {last.map((silence) => (
          <li key={silence.id} className={css.item}>
            <p className={css.name}>
              <strong>{nameOf(silence)}</strong>
              <span className={css.quiet}>
                {words.silenceBy(silence.actor)} <Time at={instant(silence.until)} format="full" />
              </span>
            </p>
            <p className={css.text}>{silence.reason}</p>
            <p className={css.buttons}>
              <Button
                label={`${words.endSilenceOf(nameOf(silence))}…`}
                onClick={() => setEnding({ silence, requestId: `ui-${newId()}` })}
              >
                {words.endSilence}…
              </Button>
            </p>
          </li>
        ))}
      </ul>
      {ending && (
        <ReasonDialog
          title={words.endSilenceOf(nameOf(ending.silence))}
          verb={words.endSilence}
          act={end}
          onClose={() => setEnding(null)}
        >
          <p>{words.endMeans}</p>
        </ReasonDialog>
      )}
    </section>
  );
}
