import { createContext, use, useEffect, useState } from "react";
import type { Instant } from "../format/format";
import { clockTime, dateTime, preciseTime, relative, type Zone, zoneName, zoneOffset } from "../format/format";

export const ZoneContext = createContext<Zone>("utc");

export function useZone(): Zone {
  return use(ZoneContext);
}

/** Renders again every `ms`, for content that changes with time. */
export function useTick(ms: number, active = true): void {
  const [, set] = useState(0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => set((n) => n + 1), ms);
    return () => clearInterval(timer);
  }, [ms, active]);
}

interface TimeProps {
  at: Instant;
  /** `relative` within a day, else the date; `clock` and `precise` are times of day in the chosen zone. */
  format?: "relative" | "clock" | "precise" | "full";
}

export function Time({ at, format = "relative" }: TimeProps) {
  const zone = useZone();
  useTick(30_000, format === "relative");
  const text =
    format === "clock"
      ? clockTime(at, zone)
      : format === "precise"
        ? preciseTime(at, zone)
        : format === "full"
          ? `${dateTime(at, zone)} ${zoneOffset(zone, at)}`
          : (relative(at, Date.now()) ?? dateTime(at, zone));
  const title = `${dateTime(at, "utc")} UTC\n${dateTime(at, "local")} ${zoneName("local", at)}`;
  return (
    <time dateTime={new Date(at).toISOString()} title={title}>
      {text}
    </time>
  );
}
