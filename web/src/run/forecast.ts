import { RunForecastDocument } from "../api/gen/graphql";
import type { Instant } from "../format/format";
import { instant } from "../api/model";
import { queryOnce } from "../api/useQuery";

export interface Forecast {
  low: Instant;
  high: Instant;
  /** The part of the earlier runs that ended between the two moments. */
  confidence: number;
  runs: number;
}

/**
 * The forecast of a run's end, from earlier runs of its plan; it does not change while the run moves. Null for no
 * forecast.
 */
export const useForecast = queryOnce(
  RunForecastDocument,
  ({ run }): Forecast | null => {
    const forecast = run?.forecast;
    return forecast ? { ...forecast, low: instant(forecast.low), high: instant(forecast.high) } : null;
  },
  ({ run }) => run?.forecast != null,
);

/**
 * The forecast in words: the two moments, with seconds when they are less than ten minutes apart, or `late` after the
 * second.
 */
export function forecastWords(
  { low, high }: Pick<Forecast, "low" | "high">,
  now: Instant,
  clock: (at: Instant) => string,
): { late: true } | { late: false; from: string | null; to: string } {
  const short = (at: Instant): string => (high - low < 600_000 ? clock(at) : clock(at).slice(0, 5));
  if (now > high) return { late: true };
  // A time that has passed is no forecast.
  if (low < now) return { late: false, from: null, to: short(high) };
  return { late: false, from: short(low), to: short(high) };
}
