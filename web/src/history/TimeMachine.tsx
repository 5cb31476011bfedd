import { useNavigate } from "@tanstack/react-router";
import { ChevronFirst, ChevronLast, History, Pause, Play } from "lucide-react";
import { useEffect, useState, useSyncExternalStore } from "react";
import { m } from "../messages";
import { Marks } from "./Marks";
import { snapped, useMarks } from "./useMarks";
import { momentBefore, momentsAfter, SPEEDS, type Speed } from "./moments";
import type { RunStore } from "../runstate/store";
import { usePlay } from "./usePlay";
import { Button } from "../ui/Button";
import { copyLink } from "../ui/copyLink";
import { useKeys } from "../ui/keys";
import { RunDiff } from "./RunDiff";
import css from "./TimeMachine.module.css";

const NAMED = 200;

interface TimeMachineProps {
  runId: string;
  /** The present run, also while a past moment is shown. */
  live: RunStore;
  /** The position that is shown; null is now. */
  at: number | null;
  /** The position to compare with. */
  diff: number | null;
}

/**
 * Goes through the log to any moment, event by event or played, and compares two moments. It is a thin line until one
 * opens it. The line has marks at failures, at retries, and at what people did.
 */
export function TimeMachine({ runId, live, at, diff }: TimeMachineProps) {
  const navigate = useNavigate({ from: "/runs/$runId" });
  const head = useSyncExternalStore(live.subscribe, () => Math.max(0, live.seq));
  const [speed, setSpeed] = useState<Speed>(1);
  const [dragged, setDragged] = useState<number | null>(null);
  const [wanted, setWanted] = useState(false);
  // A moment of the past keeps it open.
  const open = wanted || at !== null;
  const marks = useMarks(runId, head, open);
  const go = (to: number | null, replace = false): void => {
    void navigate({
      search: (old) => ({ ...old, at: to ?? undefined, ...(to === null ? { diff: undefined } : {}) }),
      replace,
    });
  };
  const position = at ?? head;
  // Until the address has changed the slider stays where it was moved to, so that the next key counts from there.
  useEffect(() => setDragged(null), [position]);
  const play = usePlay(runId, position, speed, (to) => go(to, true));
  const toLive = (): void => {
    play.stop();
    go(null);
  };
  const back = (): void =>
    void momentBefore(runId, position)
      .then((moment) => moment && go(moment.runSeq, at !== null))
      .catch(() => {});
  const forth = (): void => {
    if (at === null) return;
    void momentsAfter(runId, position, 1)
      .then(([moment]) => moment && go(moment.runSeq, true))
      .catch(() => {});
  };
  useKeys({
    "[": { does: m.runKeys.back, run: back, repeats: true },
    "]": { does: m.runKeys.forth, run: forth, repeats: true },
    L: { does: m.runKeys.live, run: toLive },
    y: { does: m.runKeys.copyLink, run: () => void copyLink(linkTo(position)) },
  });
  if (head < 2) return null;
  const words = (seq: number): string => {
    const mark = marks.find((other) => other.seq === seq);
    return m.time.of(seq, head) + (mark ? `: ${m.time.mark(mark.kind, mark.stepId)}` : "");
  };
  return (
    <>
      <div className={css.bar} role="group" aria-label={m.time.title} data-past={at !== null || undefined}>
        {at === null && (
          <Button kind="quiet" expanded={open} onClick={() => setWanted(!open)}>
            <History size={14} aria-hidden="true" /> {m.time.title}
          </Button>
        )}
        {open && (
          <>
            <Button kind="quiet" label={m.time.first} onClick={() => go(1)}>
              <ChevronFirst size={16} aria-hidden="true" />
            </Button>
            <Button kind="quiet" label={m.time.back} onClick={back}>
              <kbd>[</kbd>
            </Button>
            <Button
              kind="quiet"
              label={play.playing ? m.time.stop : m.time.play}
              onClick={() => (play.playing ? play.stop() : play.start(at === null ? 1 : at))}
            >
              {play.playing ? <Pause size={16} aria-hidden="true" /> : <Play size={16} aria-hidden="true" />}
            </Button>
            <select
              aria-label={m.time.speed}
              value={speed}
              onChange={(event) => setSpeed(SPEEDS.find((one) => String(one) === event.target.value) ?? 1)}
            >
              {SPEEDS.map((one) => (
                <option key={one} value={one}>
                  {one}×
                </option>
              ))}
            </select>
            <Button kind="quiet" label={m.time.forth} onClick={forth} refusal={at === null ? m.time.atHead : null}>
              <kbd>]</kbd>
            </Button>
            <Button kind="quiet" label={m.time.last} onClick={() => go(head)}>
              <ChevronLast size={16} aria-hidden="true" />
            </Button>
          </>
        )}
        <span className={css.slide}>
          <input
            className={css.slider}
            type="range"
            min={1}
            max={head}
            value={dragged ?? position}
            aria-label={m.time.slider}
            aria-valuetext={words(dragged ?? position)}
            onChange={(event) => {
              const to = snapped(marks, Number(event.target.value), position, head);
              setDragged(to);
              go(to, at !== null);
            }}
          />
          <Marks marks={marks} head={head} />
        </span>
        <span className={css.seq}>{words(dragged ?? position)}</span>
        {at !== null && (
          <>
            <Button onClick={() => void navigate({ search: (old) => ({ ...old, diff: head }) })}>{m.time.diff}</Button>
            <Button kind="primary" shortcut="L" onClick={toLive}>
              {m.time.live}
            </Button>
          </>
        )}
      </div>
      {at !== null && diff !== null && (
        <section className={css.diff} aria-label={m.diff.title}>
          <h2>{m.diff.between(Math.min(at, diff), Math.max(at, diff))}</h2>
          <RunDiff runId={runId} from={Math.min(at, diff)} to={Math.max(at, diff)} most={NAMED} />
          <Button kind="quiet" onClick={() => void navigate({ search: (old) => ({ ...old, diff: undefined }) })}>
            {m.diff.close}
          </Button>
        </section>
      )}
    </>
  );
}

/** The address of this page at a moment. */
function linkTo(seq: number): string {
  const url = new URL(location.href);
  if (seq > 0) url.searchParams.set("at", String(seq));
  return url.href;
}
