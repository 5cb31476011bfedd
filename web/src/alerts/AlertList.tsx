import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { instant } from "../api/model";
import { shortId } from "../format/format";
import { alerts as words } from "../messages/alerts";
import { MayNot, useMay } from "../session/MayNot";
import { Button } from "../ui/Button";
import { Where } from "../ui/Env";
import { Time } from "../ui/Time";
import { AcknowledgeDialog, canBeSilenced, SilenceDialog } from "./AlertDialogs";
import css from "./Alerts.module.css";
import { type Alert, byUrgency, titleOf } from "./order";

interface Asking {
  alert: Alert;
  what: "acknowledge" | "silence";
}

export function AlertList({ alerts, changed }: { alerts: readonly Alert[]; changed: () => void }) {
  const [asking, setAsking] = useState<Asking | null>(null);
  const may = useMay("ANNOTATE");
  const close = (): void => setAsking(null);
  const Dialog = asking?.what === "silence" ? SilenceDialog : AcknowledgeDialog;
  return (
    <>
      <ul className={css.list}>
        {alerts.toSorted(byUrgency).map((alert) => (
          <li key={alert.id} className={css.item} data-level={alert.stage === "OPEN" ? alert.level : undefined}>
            <p className={css.name}>
              <span className={css.level}>{words.levels[alert.level]}</span>
              <strong>{titleOf(alert)}</strong>
              {alert.code !== null && <code>{alert.code}</code>}
            </p>
            <p className={css.text}>{alert.note}</p>
            <p className={css.quiet}>
              <Place alert={alert} />
              {words.since} <Time at={instant(alert.raisedAt)} />
              {alert.count > 1 && ` · ${words.seen(alert.count)}`}
              {alert.subject !== null && alert.code !== null && ` · ${alert.subject}`}
              {alert.silencedUntil !== null && (
                <>
                  {` · ${words.silenced} `}
                  <Time at={instant(alert.silencedUntil)} format="full" />
                </>
              )}
            </p>
            {alert.whatToDo !== null && (
              <p className={css.text}>
                {words.todo} {alert.whatToDo}
              </p>
            )}
            <Taken alert={alert} />
            {alert.stage === "OPEN" && alert.whoCould.length > 0 && (
              <p className={css.quiet}>{words.ask(alert.whoCould)}</p>
            )}
            <p className={css.buttons}>
              <ToPage alert={alert} />
              {alert.stage === "OPEN" && (
                <Button
                  label={`${words.acknowledgeOf(titleOf(alert))}…`}
                  // Everybody who sees an alert about the installation may acknowledge it.
                  refusal={alert.installation ? null : may.refusal}
                  saidBy={may.saidBy}
                  onClick={() => setAsking({ alert, what: "acknowledge" })}
                >
                  {words.acknowledge}…
                </Button>
              )}
              {canBeSilenced(alert) && (
                <Button
                  kind="quiet"
                  label={`${words.silenceOf(titleOf(alert))}…`}
                  refusal={may.refusal}
                  saidBy={may.saidBy}
                  onClick={() => setAsking({ alert, what: "silence" })}
                >
                  {words.silence}…
                </Button>
              )}
            </p>
          </li>
        ))}
      </ul>
      {alerts.length > 0 && <MayNot of={may} />}
      {asking && <Dialog alert={asking.alert} done={changed} close={close} />}
    </>
  );
}

/** The plan and where it runs, before what only an id names. */
function Place({ alert: { planId, projectId, environmentId } }: { alert: Alert }) {
  if (projectId === null) return null;
  return (
    <>
      {planId !== null && planId !== "" && <span>{planId} </span>}
      <Where project={projectId} environment={environmentId ?? "*"} />
      {" · "}
    </>
  );
}

/** The person who has taken the alert on, with the note, and how the alert ended. */
function Taken({ alert }: { alert: Alert }) {
  return (
    <>
      {alert.acknowledgedBy !== null && alert.acknowledgedAt !== null && (
        <p className={css.text}>
          {words.acknowledgedBy(alert.acknowledgedBy)} <Time at={instant(alert.acknowledgedAt)} />
          {alert.acknowledgement !== null && alert.acknowledgement !== "" && `: “${alert.acknowledgement}”`}
        </p>
      )}
      {alert.resolvedAt !== null && (
        <p className={css.text}>
          {words.resolved} <Time at={instant(alert.resolvedAt)} />
          {alert.resolution !== null && `: ${alert.resolution}`}
        </p>
      )}
    </>
  );
}

function ToPage({ alert: { runId, stepId, page, shared } }: { alert: Alert }) {
  if (page.startsWith("/queue")) return <Link to="/queue">{words.links.queue}</Link>;
  if (page.startsWith("/dlq")) return <Link to="/dlq">{words.links.dlq}</Link>;
  if (page.startsWith("/deliveries")) {
    const [, , name] = page.split("/");
    if (name === undefined) return <Link to="/deliveries">{words.links.deliveries}</Link>;
    return (
      <Link to="/deliveries/$name" params={{ name: decodeURIComponent(name) }}>
        {words.links.deliveries}
      </Link>
    );
  }
  if (runId === null || page.startsWith("/health")) return <Link to="/health">{words.links.health}</Link>;
  return (
    <Link to="/runs/$runId" params={{ runId }} search={stepId === null ? {} : { step: stepId }} title={runId}>
      {words.links.run} <code>{shortId(runId)}</code>
      {shared && ` (${words.example})`}
    </Link>
  );
}
