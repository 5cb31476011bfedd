import { memo, useEffect, useRef } from "react";
import type { LogLine } from "../api/model";
import { logWords } from "../messages/log";
import { preciseTime } from "../format/format";
import { Time, useZone } from "../ui/Time";
import { markedSpans } from "./ansi";
import css from "./LogView.module.css";
import type { LogStore } from "./store";
import { beginsTry } from "./tries";

interface RowProps {
  no: number;
  /** The number of the line before it. */
  before: number;
  log: LogStore;
  wanted: number | null;
  find: string;
  goTo: (line: number) => void;
}

/** A line of the log, below a divider if another try begins with it. */
export function Row({ no, before, log, wanted, find, goTo }: RowProps) {
  const line = log.line(no);
  const begins = beginsTry(line, log.line(before));
  return (
    <>
      {line && begins && (
        <p className={css.try}>
          {logWords.log.tryBegins(begins.no, begins.of)} <Time at={line.at} format="clock" />
        </p>
      )}
      <Line no={no} line={line} current={wanted === no} find={find} goTo={goTo} />
    </>
  );
}

interface LineProps {
  no: number;
  line: LogLine | undefined;
  current: boolean;
  find: string;
  goTo: (line: number) => void;
}

const Line = memo(function Line({ no, line, current, find, goTo }: LineProps) {
  const zone = useZone();
  const text = useRef<HTMLSpanElement>(null);
  const known = line !== undefined;
  useEffect(() => {
    // A match far to the right is brought into sight sideways.
    if (current && known && find !== "")
      text.current?.querySelector("mark")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current, known, find]);
  return (
    <div className={css.line} data-line={no} data-stream={line?.stream} aria-current={current || undefined}>
      <button type="button" className={css.no} tabIndex={-1} title={logWords.log.link(no)} onClick={() => goTo(no)}>
        {no}
      </button>
      <span className={css.at}>{line ? preciseTime(line.at, zone) : ""}</span>
      <span ref={text} className={css.text}>
        {line
          ? markedSpans(line.text, find).map((span, i) => {
              const Part = span.match ? "mark" : "span";
              return (
                // The spans of a line never change their order.
                // oxlint-disable-next-line react/no-array-index-key
                <Part
                  key={i}
                  data-colour={span.colour || undefined}
                  style={span.colour === "" ? undefined : { color: `var(--${span.colour})` }}
                  data-bold={span.bold || undefined}
                >
                  {span.text}
                </Part>
              );
            })
          : "…"}
      </span>
    </div>
  );
});
