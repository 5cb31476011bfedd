import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { AlertList } from "../alerts/AlertList";
import alert from "../alerts/Alerts.module.css";
import { titleOf } from "../alerts/order";
import { IncidentDocument, type IncidentQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { type Incident, toneOf } from "./incident";
import { Affected } from "./Affected";
import { type Act, acknowledgeVerb, IncidentDialog, topicOf } from "./IncidentDialogs";
import { m } from "../messages";
import { incidents as words } from "../messages/incidents";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { DoneLine } from "../receipts/DoneLine";
import { MayNot, useMay } from "../session/MayNot";
import { useViewer } from "../session/viewer";
import css from "../styles/Form.module.css";
import page from "../styles/Page.module.css";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice, Skeleton } from "../ui/Page";
import { Time } from "../ui/Time";

type Note = NonNullable<IncidentQuery["incident"]>["notes"][number];

const EVERY_MS = 10_000;

/** One incident: what happened, who has it, what people did, and its alerts. */
export function IncidentView({ incidentId }: { incidentId: string }) {
  const { answer, error, asOf, again } = useQuery(
    IncidentDocument,
    { id: incidentId },
    ({ incident, incidentAlerts }) => ({ incident, alerts: incidentAlerts }),
    { every: EVERY_MS },
  );
  const incident = answer?.incident;
  useDocumentStatus(incident?.title ?? words.one);
  if (error?.code === "NOT_FOUND" || incident === null) return <Missing />;
  if (error !== null) return <Problem error={error} retry={again} />;
  if (!incident) return <Skeleton rows={6} label={m.sync.LOADING} />;
  const [first] = answer.alerts;
  return (
    <div className={page.measure}>
      <PageHead title={first ? titleOf(first) : words.one} asOf={asOf} refresh={again} repeated>
        <Link to="/incidents">{words.toAll}</Link>
      </PageHead>
      <section className={css.section}>
        <div>
          <p className={alert.name}>
            <span className={css.tone} data-tone={toneOf(incident)}>
              {words.severities[incident.severity]}
            </span>
            <span>{words.means[incident.severity]}.</span>
            {incident.code !== null && <code>{incident.code}</code>}
          </p>
          <p className={alert.text}>{incident.title}</p>
          <p className={alert.quiet}>
            {words.opened} <Time at={instant(incident.openedAt)} /> · <Affected of={incident} /> ·{" "}
            {words.alertCount(incident.alerts, incident.openAlerts)}
          </p>
          <Holder incident={incident} />
        </div>
        <div>
          {incident.whatToDo !== null && (
            <p className={alert.text}>
              {words.todo} {incident.whatToDo}
            </p>
          )}
          <p className={alert.buttons}>
            {incident.runId !== null && (
              <Link to="/runs/$runId" params={{ runId: incident.runId }} search={{}} title={incident.runId}>
                {words.run} <code>{shortId(incident.runId)}</code>
              </Link>
            )}
            <a href={incident.runbook} target="_blank" rel="noreferrer">
              {words.runbook}
            </a>
          </p>
        </div>
        <Acts incident={incident} done={again} />
      </section>
      <section className={css.section}>
        <h2>{words.timeline}</h2>
        <Timeline incident={incident} notes={incident.notes} />
      </section>
      <section className={css.section}>
        <h2>{words.alerts}</h2>
        <AlertList alerts={answer.alerts} changed={again} />
      </section>
    </div>
  );
}

function Missing() {
  return (
    <Notice title={words.missing} heading>
      <p>
        <Link to="/incidents">{words.toAll}</Link>
      </p>
    </Notice>
  );
}

function Holder({ incident }: { incident: Incident }) {
  const { acknowledgedAt, acknowledgedBy, closedAt, closedBy } = incident;
  if (closedAt !== null && closedBy !== null)
    return (
      <p>
        {words.closedBy(closedBy)} <Time at={instant(closedAt)} />
      </p>
    );
  if (acknowledgedAt !== null && acknowledgedBy !== null)
    return (
      <p>
        {words.has(acknowledgedBy)} <Time at={instant(acknowledgedAt)} />
      </p>
    );
  return (
    <p>
      <strong className={css.tone} data-tone={toneOf(incident)}>
        {words.nobodyHasIt}
      </strong>
    </p>
  );
}

/** The buttons of an open incident. Everybody who sees one of the installation may act on it. */
function Acts({ incident, done }: { incident: Incident; done: () => void }) {
  const { principal } = useViewer();
  const may = useMay("ANNOTATE");
  const [asked, setAsked] = useState<Act | null>(null);
  const acts: readonly (readonly [Act, string])[] = [
    ...(incident.acknowledgedBy === principal ? [] : [["acknowledge", acknowledgeVerb(incident)] as const]),
    ["note", words.note],
    ["severity", words.change],
    ["close", words.close],
  ];
  return (
    <div>
      {incident.closedAt === null && (
        <>
          <p className={alert.buttons}>
            {acts.map(([act, verb], i) => (
              <Button
                key={act}
                kind={act === "acknowledge" && i === 0 ? "primary" : "plain"}
                refusal={incident.installation ? null : may.refusal}
                saidBy={may.saidBy}
                onClick={() => setAsked(act)}
              >
                {verb}…
              </Button>
            ))}
          </p>
          {!incident.installation && <MayNot of={may} />}
        </>
      )}
      <DoneLine topic={topicOf(incident)} />
      {asked && <IncidentDialog incident={incident} act={asked} done={done} close={() => setAsked(null)} />}
    </div>
  );
}

/** What happened, oldest first: the opening, then what people did. */
function Timeline({ incident, notes }: { incident: Incident; notes: readonly Note[] }) {
  return (
    <ol className={alert.list}>
      <li className={alert.item}>
        <p className={alert.name}>
          <strong>{words.begun}</strong>
          <span className={alert.quiet}>
            <Time at={instant(incident.openedAt)} format="full" />
          </span>
        </p>
      </li>
      {notes.map(({ at, actor, act, severity, text }) => (
        <li key={`${at} ${act} ${text}`} className={alert.item}>
          <p className={alert.name}>
            <strong>
              {severity === null ? words.acts[act](actor) : words.setTo(actor, words.severities[severity])}
            </strong>
            <span className={alert.quiet}>
              <Time at={instant(at)} format="full" />
            </span>
          </p>
          {text !== "" && <p className={alert.text}>{text}</p>}
        </li>
      ))}
    </ol>
  );
}
