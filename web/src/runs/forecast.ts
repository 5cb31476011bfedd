// When a run may end, by earlier runs of its plan: read once, since it does not move with the run.
import { useEffect, useState } from "react";
import { RunForecastDocument } from "../api/gen/graphql";
import { type Instant, instant } from "../api/model";
import { request } from "../api/request";

export interface Forecast {
  low: Instant;
  high: Instant;
  /** The part of the earlier runs that the two moments enclose. */
  confidence: number;
  runs: number;
}

/** Null while nothing is known, and for a run that does not go on. */
export function useForecast(runId: string, goesOn: boolean): Forecast | null {
  const [held, setHeld] = useState<{ runId: string; forecast: Forecast | null } | null>(null);
  useEffect(() => {
    if (!goesOn || held?.runId === runId) return;
    const abort = new AbortController();
    request(RunForecastDocument, { runId }, abort.signal)
      .then(({ run }) => {
        const forecast = run?.forecast;
        setHeld({ runId, forecast: forecast ? { ...forecast, low: instant(forecast.low), high: instant(forecast.high) } : null });
      })
      // An estimate that is not there is no error of the page.
      .catch(() => {});
    return () => abort.abort();
  }, [runId, goesOn, held?.runId]);
  return goesOn && held?.runId === runId ? held.forecast : null;
}

/** A run that is late by what is known; until then the moments between which it may end, with seconds where they matter. */
export function forecastWords({ low, high }: Pick<Forecast, "low" | "high">, now: Instant, clock: (at: Instant) => string): { late: true } | { late: false; from: string; to: string } {
  if (now > high) return { late: true };
  const short = (at: Instant): string => (high - low < 600_000 ? clock(at) : clock(at).slice(0, 5));
  return { late: false, from: short(low), to: short(high) };
}
