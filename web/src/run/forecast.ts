import { RunForecastDocument } from "../api/gen/graphql";
import type { Instant } from "../format/format";
import { instant } from "../api/model";
import { queryOnce } from "../api/useQuery";

export interface Forecast {
  low: Instant;
  high: Instant;
  /** The part of the earlier runs that the two moments enclose. */
  confidence: number;
  runs: number;
}

/** When a run may end, by earlier runs of its plan: it does not move with the run. Null when nothing can be said. */
export const useForecast = queryOnce(
  RunForecastDocument,
  ({ run }): Forecast | null => {
    const forecast = run?.forecast;
    return forecast ? { ...forecast, low: instant(forecast.low), high: instant(forecast.high) } : null;
  },
  ({ run }) => run?.forecast != null,
);

/** A run that is late by what is known; until then the moments between which it may end, with seconds where they matter. */
export function forecastWords(
  { low, high }: Pick<Forecast, "low" | "high">,
  now: Instant,
  clock: (at: Instant) => string,
): { late: true } | { late: false; from: string; to: string } {
  if (now > high) return { late: true };
  const short = (at: Instant): string => (high - low < 600_000 ? clock(at) : clock(at).slice(0, 5));
  return { late: false, from: short(low), to: short(high) };
}
