import { useLocation } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Check, Link2, List } from "lucide-react";
import { memo, Suspense, useCallback, useEffect, useRef, useState } from "react";
import type { LogLine } from "../api/model";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { preciseTime } from "../format/format";
import { useKeys } from "../ui/keys";
import { lazyPart } from "../ui/lazyPart";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { useZone } from "../ui/Time";
import { spans } from "./ansi";
import { Download } from "./Download";
import { errorLines, nextLine } from "./errors";
import { Find } from "./Find";
import { lineOf, rowOf, rowsOf } from "./gap";
import css from "./LogView.module.css";
import type { LogStore } from "./store";
import { type LogOf, useLog } from "./useLog";

const ErrorList = lazyPart(() => import("./ErrorList").then((part) => part.ErrorList));

const ROW = 20;
const NEAR_END = 40;

interface LogViewProps {
  of: LogOf;
  /** The attempt still runs, so new lines are followed. */
  running: boolean;
  /** The attempt failed, so its log opens at the error. */
  failed: boolean;
  /** The line that the address names. */
  line: number | null;
  find: string;
  open: (to: { line?: number | undefined; q?: string | undefined }) => void;
}

export function LogView(props: LogViewProps) {
  const log = useLog(props.of, props.running);
  if (log.error !== null && log.total === null) return <Problem error={log.error} retry={() => void log.begin()} />;
  if (log.total === null) return <Skeleton rows={4} label={m.sync.LOADING} />;
  return <Lines {...props} log={log} total={log.total} />;
}

function Lines({ of, running, failed, line, find, open, log, total }: LogViewProps & { log: LogStore; total: number }) {
  const pane = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [following, setFollowing] = useState(running && line === null);
  const [wrap, setWrap] = useState(false);
  const [seen, setSeen] = useState(0);
  const [errors, setErrors] = useState<readonly number[] | null>(null);
  const [listed, setListed] = useState(false);
  const gap = log.missing;
  const count = rowsOf(total, gap);
  const rows = useVirtualizer({ count, getScrollElement: () => pane.current, estimateSize: () => ROW, overscan: 20 });
  const items = rows.getVirtualItems();
  const first = lineOf(items[0]?.index ?? 0, gap);
  const last = lineOf(items.at(-1)?.index ?? 0, gap);
  useEffect(() => {
    if (total === 0 || items.length === 0) return;
    if (gap && first < gap.from && last >= gap.to) {
      void log.ensure(first, gap.from - 1);
      void log.ensure(gap.to, last);
    } else void log.ensure(first, last);
  }, [log, first, last, total, gap, items.length]);
  useEffect(() => {
    if (following && total > 0) {
      rows.scrollToIndex(count - 1, { align: "end" });
      setSeen(total);
    }
  }, [following, total, count, rows]);
  // The line of the address, else the first line of the error.
  const wanted = line ?? (failed ? log.errorLine : null);
  useEffect(() => {
    if (wanted === null || total === 0) return;
    setFollowing(false);
    rows.scrollToIndex(rowOf(Math.min(wanted, total), gap), { align: "center" });
    // New lines must not move the lines that are being read.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [wanted, rows, total > 0]);
  const some = total > 0;
  const sought = useLocation({ select: ({ state }) => state.log });
  useEffect(() => {
    if (sought === undefined || !some) return;
    // With the focus in the pane, arrow keys scroll its lines.
    pane.current?.focus({ preventScroll: true });
    pane.current?.scrollIntoView({ block: "nearest" });
    if (wanted !== null) rows.scrollToIndex(rowOf(Math.min(wanted, total), gap), { align: "center" });
    // oxlint-disable-next-line react/exhaustive-deps
  }, [sought, some]);
  useEffect(() => {
    if (line !== null) pane.current?.scrollIntoView({ block: "nearest" });
  }, [line, some]);
  const goTo = useCallback((to: number) => open({ line: to }), [open]);
  const setFind = useCallback((text: string) => open({ q: text === "" ? undefined : text }), [open]);
  // While the attempt runs, more lines may mention an error.
  const findErrors = (then: (lines: readonly number[]) => void): void => {
    if (errors && !running) then(errors);
    else
      void errorLines(of, log.errorLine)
        .then((lines) => {
          setErrors(lines);
          then(lines);
        })
        .catch(() => {});
  };
  const toError = (): void =>
    findErrors((lines) => {
      const next = nextLine(lines, line);
      if (next !== null) goTo(next);
    });
  const list = (): void => {
    if (!listed) findErrors(() => {});
    setListed(!listed);
  };
  useKeys({
    e: { does: m.log.keys.error, run: toError, repeats: true },
    w: { does: m.log.keys.wrap, run: () => setWrap(!wrap) },
    F: { does: m.log.keys.follow, run: () => setFollowing(!following) },
    "/": { does: m.log.keys.find, run: () => field.current?.focus() },
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "f" || !(event.ctrlKey || event.metaKey) || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <div className={css.log}>
      <div className={css.tools}>
        <Find of={of} find={find} setFind={setFind} goTo={goTo} field={field} />
        <Button shortcut="e" onClick={toError}>
          {m.log.errors}
        </Button>
        <Button pressed={listed} label={m.log.list} onClick={list}>
          <List size={14} aria-hidden="true" />
        </Button>
        <Button pressed={wrap} shortcut="w" onClick={() => setWrap(!wrap)}>
          {m.log.wrap}
        </Button>
        {running && (
          <Button pressed={following} shortcut="F" onClick={() => setFollowing(!following)}>
            {m.log.follow}
          </Button>
        )}
        <Download of={of} />
        {wanted !== null && <CopyLine attempt={of.attempt} line={wanted} />}
        <span className={css.total}>
          {m.log.lines(total)} · {running && !log.complete ? m.log.live : m.log.complete}
        </span>
      </div>
      {listed && errors && (
        <Suspense>
          <ErrorList of={of} lines={errors} current={wanted} goTo={goTo} />
        </Suspense>
      )}
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
          onKeyDown={(event) =>
            (event.key === "PageUp" || event.key === "ArrowUp" || event.key === "Home") && setFollowing(false)
          }
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
                <Row no={lineOf(item.index, gap)} log={log} wanted={wanted} goTo={goTo} />
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

interface RowProps {
  no: number;
  log: LogStore;
  wanted: number | null;
  goTo: (line: number) => void;
}

function Row({ no, log, wanted, goTo }: RowProps) {
  return <Line no={no} line={log.line(no)} current={wanted === no} goTo={goTo} />;
}

/** Copies a link to a line. The link names the attempt, because a later attempt has other lines. */
function CopyLine({ attempt, line }: { attempt: number; line: number }) {
  const [copied, setCopied] = useState<number | null>(null);
  const copy = (): void => {
    const url = new URL(location.href);
    url.searchParams.set("tab", "log");
    url.searchParams.set("attempt", String(attempt));
    url.searchParams.set("line", String(line));
    void navigator.clipboard.writeText(url.href).then(() => setCopied(line));
  };
  return (
    <Button label={copied === line ? m.log.linkCopied : m.log.copyLink(line)} onClick={copy}>
      {copied === line ? <Check size={14} aria-hidden="true" /> : <Link2 size={14} aria-hidden="true" />} {line}
    </Button>
  );
}

interface LineProps {
  no: number;
  line: LogLine | undefined;
  current: boolean;
  goTo: (line: number) => void;
}

const Line = memo(function Line({ no, line, current, goTo }: LineProps) {
  const zone = useZone();
  return (
    <div className={css.line} data-line={no} data-stream={line?.stream} aria-current={current || undefined}>
      <button type="button" className={css.no} tabIndex={-1} title={m.log.link(no)} onClick={() => goTo(no)}>
        {no}
      </button>
      <span className={css.at}>{line ? preciseTime(line.at, zone) : ""}</span>
      <span className={css.text}>
        {line
          ? spans(line.text).map((span, i) => (
              // The spans of a line never change their order.
              // oxlint-disable-next-line react/no-array-index-key
              <span key={i} data-colour={span.colour || undefined} data-bold={span.bold || undefined}>
                {span.text}
              </span>
            ))
          : "…"}
      </span>
    </div>
  );
});
