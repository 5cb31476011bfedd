import { type ReactNode, useState } from "react";
import {
  AcknowledgeIncidentDocument,
  type ChangeFieldsFragment,
  CloseIncidentDocument,
  type IncidentSeverity,
  NoteIncidentDocument,
  SetIncidentSeverityDocument,
} from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { ReasonDialog } from "../forms/ReasonDialog";
import { incidents as words } from "../messages/incidents";
import { recordDone } from "../session/done";
import css from "../styles/Form.module.css";
import { type Incident, SEVERITIES } from "./incident";

export type Act = "acknowledge" | "note" | "severity" | "close";

/** Under its buttons the page of an incident shows what was done about this topic. */
export function topicOf({ id }: Incident): string {
  return `incident.${id}`;
}

interface DialogProps {
  incident: Incident;
  act: Act;
  done: () => void;
  close: () => void;
}

/** The severity that a dialog offers first: the next worse one. */
function nextOf(severity: IncidentSeverity): IncidentSeverity {
  const at = SEVERITIES.indexOf(severity);
  return SEVERITIES[at === 0 ? 1 : at - 1] ?? severity;
}

/** Asks for the note of an act, says what the act means, and sends it. */
export function IncidentDialog({ incident, act, done, close }: DialogProps) {
  const [requestId] = useState(() => `ui-${newId()}`);
  const others = SEVERITIES.filter((severity) => severity !== incident.severity);
  const [severity, setSeverity] = useState(nextOf(incident.severity));
  const send = async (note: string): Promise<void> => {
    const change = await sendAct(act, { id: incident.id, requestId, note }, severity);
    recordDone({ topic: topicOf(incident), what: words.did[act], change });
    done();
  };
  const asks = QUESTIONS[act](incident);
  return (
    <ReasonDialog
      title={words.of(asks.verb, incident.title)}
      verb={asks.verb}
      reason={act === "acknowledge" ? "optional" : "required"}
      reasonLabel={asks.note}
      act={send}
      onClose={close}
    >
      {asks.means}
      {act === "severity" && (
        <label className={css.field}>
          <span>{words.severity}</span>
          <select
            value={severity}
            onChange={(event) => setSeverity(others.find((one) => one === event.target.value) ?? severity)}
          >
            {others.map((one) => (
              <option key={one} value={one}>
                {words.severities[one]}: {words.means[one]}
              </option>
            ))}
          </select>
        </label>
      )}
    </ReasonDialog>
  );
}

interface Question {
  verb: string;
  note: string;
  means?: ReactNode;
}

export function acknowledgeVerb({ acknowledgedBy }: Incident): string {
  return acknowledgedBy === null ? words.acknowledge : words.takeOver;
}

const QUESTIONS: Record<Act, (incident: Incident) => Question> = {
  acknowledge: (incident) => ({
    verb: acknowledgeVerb(incident),
    note: words.acknowledgeNote,
    means: (
      <p>{incident.acknowledgedBy === null ? words.acknowledgeMeans : words.takeOverMeans(incident.acknowledgedBy)}</p>
    ),
  }),
  note: () => ({ verb: words.note, note: words.noteText }),
  severity: ({ severity }) => ({
    verb: words.change,
    note: words.why,
    means: (
      <p>
        {words.now} {words.severities[severity].toLowerCase()}: {words.means[severity]}.
      </p>
    ),
  }),
  close: ({ openAlerts }) => ({
    verb: words.close,
    note: words.cause,
    means: (
      <>
        {openAlerts > 0 && (
          <p>
            <strong>{words.stillOpen(openAlerts)}</strong>
          </p>
        )}
        <p>{words.closeMeans}</p>
      </>
    ),
  }),
};

async function sendAct(
  act: Act,
  input: { id: string; requestId: string; note: string },
  severity: IncidentSeverity,
): Promise<ChangeFieldsFragment> {
  switch (act) {
    case "acknowledge":
      return (await request(AcknowledgeIncidentDocument, { input })).acknowledgeIncident.change;
    case "note":
      return (await request(NoteIncidentDocument, { input })).noteIncident.change;
    case "severity":
      return (await request(SetIncidentSeverityDocument, { input: { ...input, severity } })).setIncidentSeverity.change;
    case "close":
      return (await request(CloseIncidentDocument, { input })).closeIncident.change;
  }
}
