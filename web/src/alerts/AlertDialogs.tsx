import { useState } from "react";
import { AcknowledgeAlertDocument, type SilenceAlertsInput, SilenceAlertsDocument } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { ReasonDialog } from "../forms/ReasonDialog";
import { alerts as words } from "../messages/alerts";
import css from "../styles/Form.module.css";
import { type Alert, titleOf } from "./order";

interface DialogProps {
  alert: Alert;
  done: () => void;
  close: () => void;
}

export function AcknowledgeDialog({ alert, done, close }: DialogProps) {
  const [note, setNote] = useState("");
  const [requestId] = useState(() => `ui-${newId()}`);
  const act = async (): Promise<void> => {
    await request(AcknowledgeAlertDocument, { input: { id: alert.id, requestId, note: note.trim() } });
    done();
  };
  return (
    <ReasonDialog title={words.acknowledgeOf(titleOf(alert))} verb={words.acknowledge} act={act} onClose={close}>
      <label className={css.field}>
        <span>{words.note}</span>
        <input value={note} maxLength={250} onChange={(event) => setNote(event.target.value)} />
      </label>
    </ReasonDialog>
  );
}

type Matcher = Pick<SilenceAlertsInput, "code" | "projectId" | "runId">;

function matchersOf({ code, projectId, runId, shared }: Alert): { word: string; matcher: Matcher }[] {
  const matchers: { word: string; matcher: Matcher }[] = [];
  if (runId !== null && !shared) matchers.push({ word: words.ofRun, matcher: { runId } });
  if (code !== null && projectId !== null)
    matchers.push({ word: words.ofProject(code, projectId), matcher: { code, projectId } });
  if (code !== null) matchers.push({ word: words.ofTenant(code), matcher: { code } });
  return matchers;
}

/** Whether a silence can cover the alert: one about the installation belongs to no tenant. */
export function canBeSilenced(alert: Alert): boolean {
  return !alert.installation && alert.stage !== "RESOLVED" && matchersOf(alert).length > 0;
}

const HOUR_MS = 3_600_000;

export function SilenceDialog({ alert, done, close }: DialogProps) {
  const matchers = matchersOf(alert);
  const [chosen, setChosen] = useState(0);
  const [hours, setHours] = useState("8");
  const [requestId] = useState(() => `ui-${newId()}`);
  const act = async (reason: string): Promise<void> => {
    const until = new Date(Date.now() + Number(hours) * HOUR_MS).toISOString();
    await request(SilenceAlertsDocument, { input: { ...matchers[chosen]?.matcher, requestId, until, reason } });
    done();
  };
  return (
    <ReasonDialog
      title={words.silenceOf(titleOf(alert))}
      verb={words.silence}
      reason="required"
      act={act}
      onClose={close}
    >
      <p>{words.silenceMeans}</p>
      <label className={css.field}>
        <span>{words.which}</span>
        <select value={chosen} onChange={(event) => setChosen(Number(event.target.value))}>
          {matchers.map(({ word }, i) => (
            <option key={word} value={i}>
              {word}
            </option>
          ))}
        </select>
      </label>
      <label className={css.field}>
        <span>{words.until}</span>
        <select value={hours} onChange={(event) => setHours(event.target.value)}>
          {Object.entries(words.hours).map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
      </label>
    </ReasonDialog>
  );
}
