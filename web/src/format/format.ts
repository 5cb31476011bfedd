/** Milliseconds since 1970, by the server's clock unless a name says otherwise. */
export type Instant = number;

export type Zone = "utc" | "local";

/** "< 0.1 s", "0.4 s", "12 s", "6 m 12 s", "2 h 05 m", "3 d 4 h". Never negative. */
export function duration(ms: number): string {
  const clamped = Math.max(0, ms);
  if (clamped < 100) return "< 0.1 s";
  if (clamped < 10_000) return `${(Math.floor(clamped / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(clamped / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} m ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, "0")} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Whole seconds, for countdowns and ages that tick. */
export function ticking(ms: number): string {
  return ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms);
}

export const DAY_MS = 86_400_000;

/** "8 min ago" within a day; null for an older time. */
export function relative(at: Instant, now: Instant): string | null {
  const age = Math.max(0, now - at);
  if (age >= DAY_MS) return null;
  const minutes = Math.floor(age / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  return `${Math.floor(minutes / 60)} h ago`;
}

function parts(at: Instant, zone: Zone): { date: string; time: string; millis: string } {
  const date = new Date(at);
  const shifted = zone === "utc" ? date : new Date(at - date.getTimezoneOffset() * 60_000);
  const iso = shifted.toISOString();
  return { date: iso.slice(0, 10), time: iso.slice(11, 19), millis: iso.slice(11, 23) };
}

/** The offset of a zone at an instant: "UTC", "UTC+1", "UTC+5:30". */
export function zoneOffset(zone: Zone, at: Instant): string {
  const minutes = zone === "utc" ? 0 : -new Date(at).getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "-" : "+"}${hours}${rest === 0 ? "" : `:${String(rest).padStart(2, "0")}`}`;
}

/** The name of a zone with its offset: "UTC", or "Europe/Berlin, UTC+1" for the reader's own. */
export function zoneName(zone: Zone, at: Instant = Date.now()): string {
  if (zone === "utc") return "UTC";
  return `${Intl.DateTimeFormat().resolvedOptions().timeZone}, ${zoneOffset(zone, at)}`;
}

export function clockTime(at: Instant, zone: Zone): string {
  return parts(at, zone).time;
}

export function preciseTime(at: Instant, zone: Zone): string {
  return parts(at, zone).millis;
}

export function dateTime(at: Instant, zone: Zone): string {
  const { date, time } = parts(at, zone);
  return `${date} ${time}`;
}

/** Date and time to the minute, for the ends of a long span. */
export function dateMinute(at: Instant, zone: Zone): string {
  return dateTime(at, zone).slice(0, -":00".length);
}

// `toLocaleString` creates a formatter for every number.
const GROUPED = new Intl.NumberFormat("en-GB");

export function count(n: number): string {
  return GROUPED.format(n);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let value = n;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** The beginning of an id, the same as in `dvt run`. The filter and the palette find the run by it. */
/** A duration that tells times below a second apart. */
export function fineDuration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : duration(ms);
}

export function shortId(id: string): string {
  return id.length <= 12 ? id : id.slice(0, 8);
}

/** Logical attempt 2 is the first retry. */
export function attemptName(logicalAttemptId: number): string {
  return logicalAttemptId <= 1 ? "First attempt" : `Retry #${logicalAttemptId - 1}`;
}
