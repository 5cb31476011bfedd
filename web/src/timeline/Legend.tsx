import { duration } from "../format/format";
import { pictures } from "../messages/pictures";
import type { Break } from "./axis";
import css from "./Timeline.module.css";

const REASONS = ["person", "pause", "idle"] as const;
const MEANING = pictures.timeline.meaning;
const LEGEND = [
  { kind: "waiting", tone: "pending", words: MEANING.waiting },
  { kind: "running", tone: "success", words: MEANING.running },
  { kind: "running", tone: "failed", words: pictures.timeline.failed },
  { kind: "running", tone: "cancelled", words: pictures.timeline.stopped },
  { kind: "backoff", tone: "pending", words: MEANING.backoff },
  { kind: "person", tone: "person", words: MEANING.person },
] as const;
/** Few runs have it. */
const TRIES = { kind: "tries", tone: "failed", words: MEANING.tries } as const;

/** The legend of the bars' shapes and of shortened waits. */
export function Legend({
  now,
  tries,
  paused,
  breaks,
}: {
  now: boolean;
  tries: boolean;
  paused: readonly number[];
  breaks: readonly Break[];
}) {
  return (
    <ul className={css.legend} aria-label={pictures.timeline.legend}>
      {(tries ? [...LEGEND, TRIES] : LEGEND).map(({ kind, tone, words }) => (
        <li key={words}>
          <span className={css.sample}>
            <span className={css.segment} data-kind={kind} style={{ color: `var(--${tone})` }} />
          </span>
          {words}
        </li>
      ))}
      <li>
        <span className={css.sample}>
          <span className={css.usual} />
        </span>
        {pictures.timeline.usual}
      </li>
      {now && (
        <li>
          <span className={css.sample}>
            <span className={css.now} />
          </span>
          {pictures.timeline.now}
        </li>
      )}
      {paused.length > 0 && (
        <li>
          <span className={css.sample}>
            <span className={css.band} />
          </span>
          {pictures.timeline.paused(paused.map(duration).join(", "))}
        </li>
      )}
      {REASONS.map((why) => {
        const took = breaks.filter((one) => one.why === why).map(({ from, to }) => duration(to - from));
        return (
          took.length > 0 && (
            <li key={why} data-testid="break">
              <span className={css.sample}>
                <span className={css.break} data-why={why} />
              </span>
              {pictures.timeline.breaks[why](took.join(", "))}
            </li>
          )
        );
      })}
    </ul>
  );
}
