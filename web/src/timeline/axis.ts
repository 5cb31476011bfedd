import type { Instant } from "../format/format";

export interface Span {
  from: Instant;
  to: Instant;
}

/** A long wait in which nothing ran. The axis shortens it, so that the bars beside it keep their size. */
export interface Break extends Span {
  why: "person" | "pause" | "idle";
}

/** A span with its breaks, in order, each within it. */
export interface Scale extends Span {
  breaks?: readonly Break[];
}

/** The part of the axis that a break takes, in percent. */
const BREAK_WIDTH = 4;
const MOST_BREAKS = 4;
/** A wait is shortened when it lasts at least this long, and longer than half of the time in which something ran. */
const LEAST_BREAK = 5_000;
/** One that is neither for a person nor a pause is worth a look unless it is long: steps may have waited for a worker. */
const LEAST_IDLE = 30_000;
const LEAST_PART = 0.5;

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const STEPS = [
  100,
  200,
  500,
  SECOND,
  2 * SECOND,
  5 * SECOND,
  10 * SECOND,
  15 * SECOND,
  30 * SECOND,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  24 * HOUR,
  48 * HOUR,
];
/** The shortest span: durations are shown to a tenth of a second. */
export const LEAST = 500;

/** The waits to shorten: the longest ones of those in which nothing ran. `working` are the times in which a step ran. */
export function breaksOf(working: readonly Span[], why: (wait: Span) => Break["why"]): Break[] {
  const waits: Span[] = [];
  let upTo: Instant | null = null;
  let worked = 0;
  for (const { from, to } of working.toSorted((a, b) => a.from - b.from)) {
    if (upTo !== null && from > upTo) waits.push({ from: upTo, to: from });
    worked += Math.max(0, to - Math.max(from, upTo ?? from));
    upTo = Math.max(to, upTo ?? to);
  }
  const least = Math.max(LEAST_BREAK, worked * LEAST_PART);
  return waits
    .map((wait) => ({ ...wait, why: why(wait) }))
    .filter((wait) => wait.to - wait.from >= (wait.why === "idle" ? Math.max(least, LEAST_IDLE) : least))
    .toSorted((a, b) => b.to - b.from - (a.to - a.from))
    .slice(0, MOST_BREAKS)
    .toSorted((a, b) => a.from - b.from);
}

/** A span with those breaks that lie in it. */
export function scaleOf({ from, to }: Span, breaks: readonly Break[]): Scale {
  return { from, to, breaks: breaks.filter((one) => one.from >= from && one.to <= to) };
}

/** The length of a scale without its breaks, and the percent of the axis that it takes. */
function workedOf({ from, to, breaks = [] }: Scale): { length: number; width: number } {
  const cut = breaks.reduce((sum, one) => sum + one.to - one.from, 0);
  return { length: Math.max(1, to - from - cut), width: 100 - breaks.length * BREAK_WIDTH };
}

/** Round times at least `apart` pixels from each other, none of them in a break. */
export function ticks(scale: Scale, width: number, apart: number): { at: Instant[]; step: number } {
  const worked = workedOf(scale);
  const least = (worked.length / Math.max(1, (width * worked.width) / 100)) * apart;
  const step = STEPS.find((candidate) => candidate >= least) ?? Math.ceil(least / (48 * HOUR)) * 48 * HOUR;
  const at: Instant[] = [];
  let from = scale.from;
  for (const { from: to, to: next } of [...(scale.breaks ?? []), { from: scale.to, to: scale.to }]) {
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) at.push(time);
    from = next + 1;
  }
  return { at, step };
}

/** From the run's start to its end. While it runs, there is room ahead, so that the axis changes rarely. */
export function wholeSpan(startedAt: Instant, endedAt: Instant | null, now: Instant): Span {
  if (endedAt !== null) return { from: startedAt, to: Math.max(endedAt, startedAt + LEAST) };
  const lasted = Math.max(LEAST, now - startedAt);
  let room = 10 * SECOND;
  while (room < lasted * 1.02) room *= 1.25;
  return { from: startedAt, to: startedAt + room };
}

/** The part of the work before it that is shown after now, while a run waits. */
const AHEAD_PART = 0.15;

/**
 * The span of a run in which nothing runs now: up to now, with little room ahead. Its wait is shortened, so more room
 * would squeeze all bars into a corner. `cut` is the time that the shortened waits take.
 */
export function waitingSpan(startedAt: Instant, now: Instant, cut: number): Span {
  return { from: startedAt, to: now + Math.max(LEAST, (now - startedAt - cut) * AHEAD_PART) };
}

/** A span within another, not shorter than the shortest span. */
export function within({ from, to }: Span, whole: Span): Span {
  const length = Math.min(whole.to - whole.from, Math.max(LEAST, to - from));
  const start = Math.min(Math.max(whole.from, from), whole.to - length);
  return { from: start, to: start + length };
}

/** Zooms a span around a fixed time. */
export function zoomedSpan({ from, to }: Span, factor: number, around: Instant, whole: Span): Span {
  return within({ from: around - (around - from) * factor, to: around + (to - around) * factor }, whole);
}

/** The position of a time on the axis, in percent of its length. */
export function percent(time: Instant, scale: Scale): number {
  const { length, width } = workedOf(scale);
  let [worked, broken] = [time - scale.from, 0];
  for (const { from, to } of scale.breaks ?? []) {
    if (time <= from) break;
    const within = Math.min(time, to) - from;
    worked -= within;
    broken += (within / (to - from)) * BREAK_WIDTH;
  }
  return (worked / length) * width + broken;
}

/** The time at a position of the axis. */
export function timeAt(position: number, scale: Scale): Instant {
  const { length, width } = workedOf(scale);
  let time = scale.from;
  let left = position;
  for (const { from, to } of scale.breaks ?? []) {
    const before = ((from - time) / length) * width;
    if (left <= before) break;
    left -= before;
    if (left <= BREAK_WIDTH) return from + (left / BREAK_WIDTH) * (to - from);
    left -= BREAK_WIDTH;
    time = to;
  }
  return time + (left / width) * length;
}

/** A span in the form of the address: milliseconds since the start. */
export function spanText({ from, to }: Span, startedAt: Instant): string {
  return `${Math.max(0, Math.round(from - startedAt))}-${Math.max(0, Math.round(to - startedAt))}`;
}

export function spanOf(text: string, startedAt: Instant): Span | null {
  const [from, to] = text.split("-").map(Number);
  return from !== undefined && to !== undefined && to > from ? { from: startedAt + from, to: startedAt + to } : null;
}

/** In percent of a track, the room that a duration needs, and that a letter of a longer label needs. */
const ROOM = 12;
const LETTER = 0.62;

/** The same of the track of a phone, which has 190 pixels. */
const NARROW_ROOM = 20;
const NARROW_LETTER = 3.6;

/** In percent of a track, the room of a label. */
export function roomOf(letters: number, narrow = false): number {
  return narrow ? Math.max(NARROW_ROOM, letters * NARROW_LETTER) : Math.max(ROOM, letters * LETTER);
}

/** Whether a label has room behind or before its bars. */
export function hasRoom(start: number, end: number, letters: number): boolean {
  return Math.max(start, 100 - end) >= roomOf(letters);
}

/** The place of the label: behind its bar, before it where there is no room, else on its end. */
export function besideBar(
  start: number,
  end: number,
  letters: number,
  narrow = false,
): { left?: string; right?: string } {
  const room = roomOf(letters, narrow);
  if (end <= 100 - room) return { left: `${end}%` };
  return { right: start >= room ? `${100 - start}%` : "0" };
}
