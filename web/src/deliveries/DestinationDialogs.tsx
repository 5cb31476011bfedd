import { useState } from "react";
import {
  DisableDestinationDocument,
  EnableDestinationDocument,
  PreviewReplayDocument,
  RedriveDeliveriesDocument,
  ReplayDestinationDocument,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { zoneName } from "../format/format";
import { ReasonDialog } from "../forms/ReasonDialog";
import { deliveries as words } from "../messages/deliveries";
import { recordDone } from "../session/done";
import css from "../styles/Form.module.css";
import { Time, useZone } from "../ui/Time";
import type { Destination } from "./destination";
import { rangeOf } from "./range";

/** Under its buttons the page of a destination shows what was done about this topic. */
export function topicOf({ name }: Destination): string {
  return `destination.${name}`;
}

interface DialogProps {
  destination: Destination;
  done: () => void;
  close: () => void;
}

/** Enables a disabled destination, and disables another one. */
export function SwitchDialog({ destination, done, close }: DialogProps) {
  const { name, state, beginsAt, waiting } = destination;
  const [requestId] = useState(() => `ui-${newId()}`);
  const enables = state === "DISABLED";
  const act = async (reason: string): Promise<void> => {
    const input = { requestId, name, reason };
    const { change } = enables
      ? (await request(EnableDestinationDocument, { input })).enableDestination
      : (await request(DisableDestinationDocument, { input })).disableDestination;
    recordDone({ topic: topicOf(destination), what: words.did[enables ? "enable" : "disable"](name), change });
    done();
  };
  return (
    <ReasonDialog
      title={enables ? words.enableOf(name) : words.disableOf(name)}
      verb={enables ? words.enable : words.disable}
      reason="required"
      danger={!enables}
      act={act}
      onClose={close}
    >
      {enables ? (
        <p>
          {words.enableMeans}
          {beginsAt !== null && (
            <>
              {" "}
              {words.begins} <Time at={instant(beginsAt)} format="full" />.
            </>
          )}
        </p>
      ) : (
        <p>
          {words.disableMeans} {waiting > 0 && `${words.wait(waiting)}.`}
        </p>
      )}
    </ReasonDialog>
  );
}

interface RedriveProps extends DialogProps {
  /** The dead letter; null for all. */
  letter: { id: string; messageId: string } | null;
}

export function RedriveDialog({ destination, letter, done, close }: RedriveProps) {
  const { name, state, deadLetters } = destination;
  const [requestId] = useState(() => `ui-${newId()}`);
  const act = async (reason: string): Promise<void> => {
    const which = letter === null ? { all: true } : { ids: [letter.id] };
    const { redriveDeliveries } = await request(RedriveDeliveriesDocument, {
      input: { requestId, name, reason, ...which },
    });
    recordDone({ topic: topicOf(destination), what: words.did.redrive(name), change: redriveDeliveries.change });
    done();
  };
  return (
    <ReasonDialog
      title={letter === null ? words.redriveAllOf(deadLetters) : words.redriveOf(letter.messageId)}
      verb={words.redrive}
      reason="required"
      act={act}
      onClose={close}
    >
      <p>{words.redriveMeans}</p>
      {state === "DISABLED" && <p>{words.redriveDisabled}</p>}
    </ReasonDialog>
  );
}

type Topic = keyof typeof words.topic;

/** Asks for a range, and counts what would be sent before it can be sent. */
export function ReplayDialog({ destination, done, close }: DialogProps) {
  const { name } = destination;
  const zone = useZone();
  const [requestId] = useState(() => `ui-${newId()}`);
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [topic, setTopic] = useState<Topic>("all");
  const [project, setProject] = useState("");
  const range = rangeOf(from, to, zone);
  const filter = {
    ...(topic === "all" ? {} : { topics: [topic] }),
    ...(project.trim() === "" ? {} : { projects: [project.trim()] }),
  };
  const preview = useQuery(
    PreviewReplayDocument,
    range && { name, ...range, filter },
    ({ previewReplay }) => previewReplay,
    { after: 400 },
  );
  const act = async (reason: string): Promise<void> => {
    if (range === null) return;
    const { replayDestination } = await request(ReplayDestinationDocument, {
      input: { requestId, name, reason, ...range, filter },
    });
    recordDone({ topic: topicOf(destination), what: words.did.replay(name), change: replayDestination.change });
    done();
  };
  const counted = preview.answer;
  return (
    <ReasonDialog
      title={words.replayOf(name)}
      verb={words.replay}
      reason="required"
      ready={counted !== undefined && counted.messages > 0}
      act={act}
      onClose={close}
    >
      <p>{words.replayMeans}</p>
      <div className={css.row}>
        <label className={css.field}>
          <span>{words.from(zoneName(zone))}</span>
          <input type="datetime-local" step={1} value={from} onChange={(event) => setFrom(event.target.value)} />
        </label>
        <label className={css.field}>
          <span>{words.until(zoneName(zone))}</span>
          <input type="datetime-local" step={1} value={to} onChange={(event) => setTo(event.target.value)} />
        </label>
      </div>
      <div className={css.row}>
        <label className={css.field}>
          <span>{words.topics}</span>
          <select
            value={topic}
            onChange={({ target }) => setTopic(TOPICS.find((one) => one === target.value) ?? "all")}
          >
            {TOPICS.map((one) => (
              <option key={one} value={one}>
                {words.topic[one]}
              </option>
            ))}
          </select>
        </label>
        <label className={css.field}>
          <span>{words.project}</span>
          <input value={project} maxLength={128} onChange={(event) => setProject(event.target.value)} />
        </label>
      </div>
      <p role="status">
        {range === null && words.noRange}
        {range !== null && preview.error !== null && preview.error.message}
        {range !== null && preview.error === null && counted === undefined && words.counting}
        {counted && (
          <>
            <strong>{words.preview(counted.messages, counted.more)}</strong>{" "}
            {counted.first !== null && counted.last !== null && (
              <>
                <Time at={instant(counted.first)} format="full" /> {words.range}{" "}
                <Time at={instant(counted.last)} format="full" />
              </>
            )}
          </>
        )}
      </p>
    </ReasonDialog>
  );
}

const TOPICS: readonly Topic[] = ["all", "events", "alerts"];
