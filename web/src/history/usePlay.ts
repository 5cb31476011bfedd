import { useEffect, useRef, useState } from "react";
import { type Moment, momentsAfter, nextStop, type Speed } from "./moments";

export interface Playing {
  playing: boolean;
  /** Plays the log from a position. */
  start: (from: number) => void;
  stop: () => void;
}

/**
 * Plays the log `speed` times as fast as it happened, and stops at its end. It calls `move` and continues when
 * `position` has followed.
 */
export function usePlay(runId: string, position: number, speed: Speed, move: (seq: number) => void): Playing {
  const [playing, setPlaying] = useState(false);
  const ahead = useRef<Moment[]>([]);
  const from = useRef<number | null>(null);
  const go = useRef(move);
  go.current = move;
  useEffect(() => {
    if (!playing) return;
    let stopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const next = async (): Promise<void> => {
      ahead.current = ahead.current.filter((moment) => moment.runSeq > position);
      if (ahead.current.length === 0) ahead.current = await momentsAfter(runId, position);
      if (stopped) return;
      const found = nextStop(ahead.current, from.current ?? ahead.current[0]?.at ?? 0, speed);
      if (!found) {
        setPlaying(false);
        return;
      }
      timer = setTimeout(() => {
        from.current = found.stop.at;
        go.current(found.stop.runSeq);
      }, found.waitMs);
    };
    next().catch(() => setPlaying(false));
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [playing, runId, position, speed]);
  return {
    playing,
    start: (seq) => {
      ahead.current = [];
      from.current = null;
      if (seq !== position) go.current(seq);
      setPlaying(true);
    },
    stop: () => setPlaying(false),
  };
}
