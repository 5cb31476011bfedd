import type { DestinationState } from "../api/gen/graphql";
import { instant } from "../api/model";
import { deliveries as words } from "../messages/deliveries";
import css from "../styles/Form.module.css";
import { Time } from "../ui/Time";
import { type Destination, refusesAll } from "./destination";

const TONES: Partial<Record<DestinationState, "good" | "warn" | "bad">> = {
  SENDING: "good",
  WAITING: "bad",
  FAILING: "bad",
  DISABLED: "warn",
};
const SIGNS: Record<DestinationState, string> = {
  SENDING: "●",
  WAITING: "✕",
  FAILING: "✕",
  DISABLED: "○",
  REMOVED: "○",
  UNKNOWN: "○",
};

/** What the destination does now, since when and why, in a sentence. */
export function StateOf({ destination }: { destination: Destination }) {
  const { state, lastSentAt, waiting, oldestWaitingAt, deadLetters, missedRuns } = destination;
  const refuses = refusesAll(destination);
  return (
    <span>
      <span className={css.tone} data-tone={refuses ? "bad" : TONES[state]}>
        <span aria-hidden="true">{refuses ? SIGNS.FAILING : SIGNS[state]}</span>{" "}
        {refuses ? words.refuses : state === "SENDING" && lastSentAt === null ? words.fresh : words.states[state]}
      </span>
      <Why destination={destination} />
      {deadLetters > 0 && <>; {words.becameDead(deadLetters)}</>}
      {missedRuns > 0 && <>; {words.missed(missedRuns)}</>}
      {waiting > 0 && (
        <>
          ; {words.wait(waiting)}
          {oldestWaitingAt !== null && (
            <>
              , {words.oldest} <Time at={instant(oldestWaitingAt)} />
            </>
          )}
        </>
      )}
    </span>
  );
}

function Why({ destination }: { destination: Destination }) {
  const { state, why, since, disabledBy, lastSentAt, lastError } = destination;
  switch (state) {
    case "SENDING":
      if (refusesAll(destination)) return lastError === null ? null : `: ${lastError}`;
      if (lastSentAt === null) return `; ${words.noMessage}`;
      return (
        <>
          ; {words.last} <Time at={instant(lastSentAt)} />
        </>
      );
    case "FAILING":
      return (
        <>
          {since !== null && (
            <>
              {" "}
              {words.since} <Time at={instant(since)} format="full" />
            </>
          )}
          {lastError !== null && `: ${lastError}`}
        </>
      );
    case "DISABLED":
      return (
        <>
          {" "}
          {disabledBy === null ? words.byDvt : words.by(disabledBy)}
          {since !== null && (
            <>
              , <Time at={instant(since)} format="full" />
            </>
          )}
          : {why}
        </>
      );
    default:
      return `: ${why}`;
  }
}
