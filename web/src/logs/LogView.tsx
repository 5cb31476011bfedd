import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronDown, ChevronUp } from "lucide-react";
import { memo, useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { follow } from "../api/follow";
import { StepLogDocument, StepLogUpdatesDocument, type StepLogUpdatesSubscriptionVariables } from "../api/gen/graphql";
import { type LogLine, toLine } from "../api/model";
import { request } from "../api/request";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { preciseTime } from "../ui/format";
import { Problem, Skeleton } from "../ui/Page";
import { useZone } from "../ui/Time";
import { spans } from "./ansi";
import css from "./LogView.module.css";
import { LogStore } from "./store";

const ROW = 20;
const FIND_DEBOUNCE_MS = 250;
const NEAR_END = 40;

interface LogViewProps {
  runId: string;
  stepId: string;
  attempt: number;
  /** The attempt still runs: lines are followed as they come. */
  running: boolean;
  /** Open at the end, where a failure speaks. */
  fromEnd: boolean;
}

function useLog({ runId, stepId, attempt, running }: LogViewProps): LogStore {
  const log = useMemo(
    () =>
      new LogStore(async (fromLine, first) => {
        const { stepLog } = await request(StepLogDocument, { runId, stepId, attempt, fromLine, first });
        return { lines: (stepLog?.lines ?? []).map(toLine), totalLines: stepLog?.totalLines ?? 0 };
      }),
    [runId, stepId, attempt],
  );
  useSyncExternalStore(log.subscribe, log.version);
  const first = log.total === null && log.error === null;
  useEffect(() => {
    if (first) void log.ensure(1, 1);
  }, [log, first]);
  const loaded = log.total !== null;
  useEffect(() => {
    // An attempt that ended before the log was opened prints no more.
    if (!loaded || !running || log.complete) return;
    const variables: StepLogUpdatesSubscriptionVariables = { runId, stepId, attempt, fromLine: (log.total ?? 0) + 1 };
    const stream = follow(StepLogUpdatesDocument, variables, {
      next: ({ stepLogUpdates: update }) => {
        log.append(update.lines.map(toLine), update.totalLines, update.complete);
        variables.fromLine = (log.total ?? 0) + 1;
        if (update.complete) stream.close();
      },
      refused: () => {},
    });
    return stream.close;
  }, [log, loaded, running, runId, stepId, attempt]);
  // The last lines may come with the end of the attempt.
  const wasRunning = useRef(running);
  useEffect(() => {
    if (wasRunning.current && !running && !log.complete) {
      void request(StepLogDocument, { runId, stepId, attempt, fromLine: (log.total ?? 0) + 1, first: 1000 })
        .then(({ stepLog }) => stepLog && log.append(stepLog.lines.map(toLine), stepLog.totalLines, true))
        .catch(() => {});
    }
    wasRunning.current = running;
  }, [log, running, runId, stepId, attempt]);
  return log;
}

export function LogView(props: LogViewProps) {
  const log = useLog(props);
  const { running, fromEnd } = props;
  const total = log.total ?? 0;
  const pane = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(running || fromEnd);
  const [wrap, setWrap] = useState(false);
  const [seen, setSeen] = useState(0);
  const [current, setCurrent] = useState<number | null>(null);
  const rows = useVirtualizer({
    count: total,
    getScrollElement: () => pane.current,
    estimateSize: () => ROW,
    overscan: 20,
  });
  const items = rows.getVirtualItems();
  const first = (items[0]?.index ?? 0) + 1;
  const last = (items.at(-1)?.index ?? 0) + 1;
  useEffect(() => {
    if (total > 0) void log.ensure(first, last);
  }, [log, first, last, total]);
  useEffect(() => {
    if (following && total > 0) {
      rows.scrollToIndex(total - 1, { align: "end" });
      setSeen(total);
    }
  }, [following, total, rows]);
  const goTo = useCallback(
    (line: number) => {
      setFollowing(false);
      setCurrent(line);
      rows.scrollToIndex(line - 1, { align: "center" });
    },
    [rows],
  );

  if (log.error !== null && log.total === null) return <Problem error={log.error} retry={() => void log.ensure(1, 1)} />;
  if (log.total === null) return <Skeleton rows={4} label={m.runs.loading} />;
  return (
    <div className={css.log}>
      <div className={css.tools}>
        <Find {...props} goTo={goTo} />
        <Button pressed={wrap} onClick={() => setWrap(!wrap)}>
          {m.log.wrap}
        </Button>
        {running && (
          <Button pressed={following} onClick={() => setFollowing(!following)}>
            {m.log.follow}
          </Button>
        )}
        <span className={css.total}>
          {m.log.lines(total)} · {running && !log.complete ? m.log.live : m.log.complete}
        </span>
      </div>
      {total === 0 ? (
        <p className={css.empty}>{running ? m.log.waiting : m.log.none}</p>
      ) : (
        <div
          ref={pane}
          className={css.pane}
          role="region"
          aria-label={m.step.tabs.log}
          // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
          tabIndex={0}
          onWheel={(event) => event.deltaY < 0 && setFollowing(false)}
          onKeyDown={(event) => (event.key === "PageUp" || event.key === "ArrowUp" || event.key === "Home") && setFollowing(false)}
          onScroll={(event) => {
            const box = event.currentTarget;
            if (box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END) setSeen(total);
          }}
        >
          <div className={css.extent} style={{ height: rows.getTotalSize() }}>
            {items.map((item) => (
              <div
                key={item.key}
                ref={wrap ? rows.measureElement : undefined}
                data-index={item.index}
                className={css.row}
                data-wrap={wrap || undefined}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <Line no={item.index + 1} line={log.line(item.index + 1)} current={current === item.index + 1} />
              </div>
            ))}
          </div>
        </div>
      )}
      {!following && seen > 0 && total > seen && (
        <div className={css.more}>
          <Button onClick={() => setFollowing(true)}>↓ {m.log.newLines(total - seen)}</Button>
        </div>
      )}
    </div>
  );
}

const Line = memo(function Line({ no, line, current }: { no: number; line: LogLine | undefined; current: boolean }) {
  const zone = useZone();
  return (
    <div className={css.line} data-stream={line?.stream} aria-current={current || undefined}>
      <span className={css.no}>{no}</span>
      <span className={css.at}>{line ? preciseTime(line.at, zone) : ""}</span>
      <span className={css.text}>
        {line ? spans(line.text).map((span, i) => (
          // Pieces of one line never move.
          // oxlint-disable-next-line react/no-array-index-key
          <span key={i} data-colour={span.colour || undefined} data-bold={span.bold || undefined}>
            {span.text}
          </span>
        )) : "…"}
      </span>
    </div>
  );
});

interface Matches {
  lines: readonly number[];
  total: number;
  at: number;
}

/** Finds over the whole log, on the server. */
function Find({ runId, stepId, attempt, goTo }: LogViewProps & { goTo: (line: number) => void }) {
  const [find, setFind] = useState("");
  const [matches, setMatches] = useState<Matches | null>(null);
  useEffect(() => {
    setMatches(null);
    if (find === "") return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      request(StepLogDocument, { runId, stepId, attempt, fromLine: 1, first: 1, find }, abort.signal)
        .then(({ stepLog }) => {
          if (!stepLog) return;
          setMatches({ lines: stepLog.matches, total: stepLog.totalMatches, at: 0 });
          if (stepLog.matches[0] !== undefined) goTo(stepLog.matches[0]);
        })
        .catch(() => {});
    }, FIND_DEBOUNCE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [find, runId, stepId, attempt, goTo]);
  const step = (by: number): void => {
    if (!matches || matches.lines.length === 0) return;
    const at = (matches.at + by + matches.lines.length) % matches.lines.length;
    setMatches({ ...matches, at });
    const line = matches.lines[at];
    if (line !== undefined) goTo(line);
  };
  return (
    <span className={css.find}>
      <input
        type="search"
        value={find}
        maxLength={200}
        placeholder={m.log.find}
        aria-label={m.log.find}
        onChange={(event) => setFind(event.target.value)}
        onKeyDown={(event) => event.key === "Enter" && step(event.shiftKey ? -1 : 1)}
      />
      <span role="status">{matches && (matches.total === 0 ? m.log.noMatches : m.log.matches(matches.at + 1, matches.total))}</span>
      {matches && matches.total > 1 && (
        <>
          <Button kind="quiet" label={m.log.previous} onClick={() => step(-1)}>
            <ChevronUp size={14} aria-hidden="true" />
          </Button>
          <Button kind="quiet" label={m.log.next} onClick={() => step(1)}>
            <ChevronDown size={14} aria-hidden="true" />
          </Button>
        </>
      )}
    </span>
  );
}
