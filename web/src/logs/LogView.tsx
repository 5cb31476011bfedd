import { Link, useLocation } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Check, FoldVertical, Link2, List, Maximize2, Minimize2, WrapText } from "lucide-react";
import { Suspense, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { m } from "../messages";
import { logWords } from "../messages/log";
import { Button } from "../ui/Button";
import { count as countOf, ticking } from "../format/format";
import { useKeys } from "../ui/keys";
import { lazyPart } from "../ui/lazyPart";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { useTick } from "../ui/Time";
import { Download } from "./Download";
import { errorLines, nextLine } from "./errors";
import { Find } from "./Find";
import { foldedIndex, foldedRows } from "./folds";
import { lineOf, rowOf, rowsOf } from "./gap";
import { Row } from "./Line";
import css from "./LogView.module.css";
import type { LogStore } from "./store";
import { announcedTry, beginsTry, type NextTry } from "./tries";
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
  /** The log fills the window. */
  full: boolean;
  open: (to: { line?: number | undefined; q?: string | undefined }) => void;
}

export function LogView(props: LogViewProps) {
  const log = useLog(props.of, props.running);
  if (log.error !== null && log.total === null) return <Problem error={log.error} retry={() => void log.begin()} />;
  if (log.total === null) return <Skeleton rows={4} label={m.sync.LOADING} />;
  return <Lines {...props} log={log} total={log.total} />;
}

function Lines({
  of,
  running,
  failed,
  line,
  find,
  full,
  open,
  log,
  total,
}: LogViewProps & { log: LogStore; total: number }) {
  const pane = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [following, setFollowing] = useState(running && line === null);
  const [wrap, setWrap] = useState(false);
  const [seen, setSeen] = useState(0);
  const [errors, setErrors] = useState<readonly number[] | null>(null);
  const [listed, setListed] = useState(false);
  const [fold, setFold] = useState(false);
  const gap = log.missing;
  const folded = useMemo(() => (fold && errors ? foldedRows(total, errors) : null), [fold, errors, total]);
  const count = folded?.length ?? rowsOf(total, gap);
  /** The first line of a row. */
  const lineAt = (index: number): number => {
    const row = folded?.[index];
    return row ? (row.kind === "line" ? row.no : row.from) : lineOf(index, gap);
  };
  const rowAt = (no: number): number =>
    folded ? foldedIndex(folded, no) : rowOf(Math.max(1, Math.min(no, total)), gap);
  const rows = useVirtualizer({ count, getScrollElement: () => pane.current, estimateSize: () => ROW, overscan: 20 });
  const items = rows.getVirtualItems();
  const first = lineAt(items[0]?.index ?? 0);
  const last = lineAt(items.at(-1)?.index ?? 0);
  useEffect(() => {
    if (total === 0 || items.length === 0) return;
    if (folded) for (const { index } of items) void log.ensure(lineAt(index), lineAt(index));
    else if (gap && first < gap.from && last >= gap.to) {
      void log.ensure(first, gap.from - 1);
      void log.ensure(gap.to, last);
    } else void log.ensure(Math.max(1, first - 1), last);
    // oxlint-disable-next-line react/exhaustive-deps
  }, [log, first, last, total, gap, items.length, folded]);
  useEffect(() => {
    if (following && total > 0) {
      rows.scrollToIndex(count - 1, { align: "end" });
      setSeen(total);
    }
  }, [following, total, count, rows]);
  // The line of the address, else the first line of the error.
  const wanted = line ?? (failed ? log.errorLine : null);
  const toWanted = (): void => {
    if (wanted !== null) rows.scrollToIndex(rowAt(wanted), { align: "center" });
  };
  useEffect(() => {
    if (wanted === null || total === 0) return;
    setFollowing(false);
    // Lines are read from their beginning, except for a match, which scrolls itself into sight.
    if (find === "" && pane.current) pane.current.scrollLeft = 0;
    toWanted();
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
    toWanted();
    // oxlint-disable-next-line react/exhaustive-deps
  }, [sought, some]);
  useEffect(() => {
    if (line !== null) pane.current?.scrollIntoView({ block: "nearest" });
  }, [line, some]);
  const goTo = useCallback((to: number) => open({ line: to }), [open]);
  const setFind = useCallback((text: string) => open({ q: text === "" ? undefined : text }), [open]);
  const keepPlace = useKeptPlace(pane, rows, `${wrap} ${folded !== null}`, wanted, lineAt, rowAt);
  const toggleWrap = (): void => {
    keepPlace();
    setWrap(!wrap);
  };
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
  const toggleFold = (): void =>
    findErrors(() => {
      keepPlace();
      setFollowing(false);
      setFold(!fold);
    });
  useKeys({
    e: { does: logWords.log.keys.error, run: toError, repeats: true },
    w: { does: logWords.log.keys.wrap, run: toggleWrap },
    F: { does: logWords.log.keys.follow, run: () => setFollowing(!following) },
    "/": { does: logWords.log.keys.find, run: () => field.current?.focus() },
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "Escape" && listed && !event.defaultPrevented) {
        event.preventDefault();
        setListed(false);
      }
      if (event.key !== "f" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      field.current?.focus();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [listed]);
  const next = running && some ? announcedTry(log.line(total)) : null;
  return (
    <div className={css.log}>
      <div className={css.tools}>
        <Find of={of} lines={total} find={find} setFind={setFind} goTo={goTo} field={field} />
        <Button shortcut="e" onClick={toError}>
          {logWords.log.errors}
        </Button>
        <Button pressed={listed} label={logWords.log.list} onClick={list}>
          <List size={14} aria-hidden="true" /> <span className={css.word}>{logWords.log.listWord}</span>
        </Button>
        <Button pressed={fold} label={logWords.log.fold} onClick={toggleFold}>
          <FoldVertical size={14} aria-hidden="true" /> <span className={css.word}>{logWords.log.fold}</span>
        </Button>
        <Button pressed={wrap} label={logWords.log.wrap} shortcut="w" onClick={toggleWrap}>
          <WrapText size={14} aria-hidden="true" /> <span className={css.word}>{logWords.log.wrap}</span>
        </Button>
        {running && (
          <Button pressed={following} shortcut="F" onClick={() => setFollowing(!following)}>
            {logWords.log.follow}
          </Button>
        )}
        {wanted !== null && <CopyLine attempt={of.attempt} line={wanted} />}
        <Download of={of} />
        <FullHeight full={full} />
        <span className={css.total} data-live={(running && !log.complete) || undefined}>
          {logWords.log.lines(total)}
          {running && !log.complete && ` · ${logWords.log.live}`}
        </span>
      </div>
      {listed && errors && (
        <Suspense>
          <ErrorList of={of} lines={errors} current={wanted} goTo={goTo} />
        </Suspense>
      )}
      {next && <TryWaits next={next} />}
      {log.unordered && <p className={css.note}>{logWords.log.unordered}</p>}
      {total === 0 ? (
        <p className={css.empty}>{running ? logWords.log.waiting : logWords.log.none}</p>
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
            {items.map((item) => {
              const row = folded?.[item.index];
              const no = lineAt(item.index);
              const before = item.index === 0 ? 0 : folded ? no - 1 : lineOf(item.index - 1, gap);
              const line = log.line(no);
              const divided = beginsTry(line, log.line(before)) !== null;
              // Earlier versions stored a message with its line breaks as one line.
              const broken = line?.text.includes("\n") ?? false;
              // The line that one came for is read whole.
              const wraps = wrap || no === wanted;
              return (
                <div
                  key={item.key}
                  ref={wraps || divided || broken ? rows.measureElement : undefined}
                  data-index={item.index}
                  className={css.row}
                  data-wrap={wraps || undefined}
                  style={{ transform: `translateY(${item.start}px)` }}
                >
                  {row?.kind === "fold" ? (
                    <button type="button" className={css.fold} onClick={() => (setFold(false), goTo(row.from))}>
                      {logWords.log.folded(countOf(row.to - row.from + 1))}
                    </button>
                  ) : (
                    <Row no={no} before={before} log={log} wanted={wanted} find={find} goTo={goTo} />
                  )}
                </div>
              );
            })}
          </div>
        </div>
      )}
      {!following && seen > 0 && total > seen && (
        <div className={css.more}>
          <Button onClick={() => setFollowing(true)}>↓ {logWords.log.newLines(total - seen)}</Button>
        </div>
      )}
    </div>
  );
}

/**
 * Returns a function to call before the rows get other heights or numbers, which changes `layout`. The line that was
 * being read then stays: the wanted one if it is in sight, else the topmost.
 */
function useKeptPlace(
  pane: { readonly current: HTMLDivElement | null },
  rows: ReturnType<typeof useVirtualizer<HTMLDivElement, Element>>,
  layout: string,
  wanted: number | null,
  lineAt: (row: number) => number,
  rowAt: (line: number) => number,
): () => void {
  const kept = useRef<number | null>(null);
  useLayoutEffect(() => {
    rows.measure();
    const line = kept.current;
    kept.current = null;
    if (line === null) return;
    const restore = (): void => rows.scrollToIndex(rowAt(line), { align: line === wanted ? "center" : "start" });
    restore();
    // The rows before it are measured when they are drawn, which moves it.
    const drawn = requestAnimationFrame(() => requestAnimationFrame(restore));
    return () => cancelAnimationFrame(drawn);
    // The place is restored once for each change of the layout.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [layout]);
  return () => {
    const box = pane.current;
    if (!box) return;
    const [top, bottom] = [box.scrollTop, box.scrollTop + box.clientHeight];
    const shown = rows.getVirtualItems().filter((item) => item.end > top && item.start < bottom);
    const lines = shown.map((item) => lineAt(item.index));
    kept.current = wanted !== null && lines.includes(wanted) ? wanted : (lines[0] ?? null);
  };
}

/** Says when the next automatic try starts. */
function TryWaits({ next }: { next: NextTry }) {
  useTick(1_000);
  return (
    <p className={css.waits}>{logWords.log.tryWaits(next.no, next.of, ticking(Math.max(0, next.at - Date.now())))}</p>
  );
}

/** A link to the log that fills the window, and back. */
function FullHeight({ full }: { full: boolean }) {
  const Icon = full ? Minimize2 : Maximize2;
  const label = full ? logWords.log.notFull : logWords.log.full;
  return (
    <Link
      from="/runs/$runId"
      to="."
      search={(old) => ({ ...old, full: full ? undefined : ("yes" as const) })}
      className={css.tool}
      aria-label={label}
      title={label}
    >
      <Icon size={14} aria-hidden="true" />
    </Link>
  );
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
    <Button label={copied === line ? logWords.log.linkCopied : logWords.log.copyLink(line)} onClick={copy}>
      {copied === line ? <Check size={14} aria-hidden="true" /> : <Link2 size={14} aria-hidden="true" />} {line}
    </Button>
  );
}
