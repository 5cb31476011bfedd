import type { RunForecastQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import type { Instant } from "../format/format";
import { ends } from "../messages/doctor";

/** What a server knows about the end of a run. */
export interface End {
  forecast: { low: Instant; high: Instant; expected: Instant; runs: number; similar: boolean } | null;
  gap: { reason: string; stepId: string; runs: number; needed: number } | null;
  deadline: Instant | null;
}

export function endOf({ run }: RunForecastQuery): End | null {
  if (!run) return null;
  const { forecast, forecastGap } = run;
  return {
    forecast: forecast && {
      ...forecast,
      low: instant(forecast.low),
      high: instant(forecast.high),
      expected: instant(forecast.expectedEnd),
      similar: forecast.basis === "SIMILAR_STEPS",
    },
    gap: forecastGap && { ...forecastGap, stepId: forecastGap.stepId ?? "" },
    deadline: run.deadline === null ? null : instant(run.deadline),
  };
}

/**
 * The end in words: the expected moment with its range, with seconds when that is shorter than ten minutes, then the
 * deadline. `over` is null while the run has not ended; then it says whether the run completed in time.
 */
export function endWords(
  { forecast, gap, deadline }: End,
  now: Instant,
  over: ((due: Instant) => boolean) | null,
  clock: (at: Instant) => string,
  day: (at: Instant) => string,
): { text: string; title?: string; late: boolean } {
  const parts: string[] = [];
  let title: string | undefined;
  const brief = (at: Instant): string => clock(at).slice(0, 5);
  if (forecast && !over) {
    const { low, high, expected, runs, similar } = forecast;
    const short = (at: Instant): string => (high - low < 600_000 ? clock(at) : brief(at));
    if (now > high) parts.push(ends.late(runs));
    // A time that has passed is no forecast.
    else if (low < now) parts.push(ends.by(short(Math.max(now, expected)), short(high)));
    else parts.push(ends.about(short(expected), short(low), short(high)));
    title = ends.basis(runs) + (similar ? ends.similar : "");
  } else if (gap && !over) {
    if (gap.reason === "TOO_FEW_RUNS") parts.push(ends.few(gap.runs, gap.needed));
    if (gap.reason === "WAITS_FOR_PERSON") parts.push(ends.waits(gap.stepId));
    if (gap.reason === "UNKNOWN_STEPS") parts.push(ends.unknown(gap.stepId));
  }
  let late = false;
  if (deadline !== null) {
    late = over ? !over(deadline) : now > deadline;
    // A deadline of tomorrow would look like one that has passed.
    const due = ends.due((day(deadline) === day(now) ? "" : `${day(deadline)} `) + brief(deadline));
    // A late run says so first.
    if (late && !over) parts.unshift(`${ends.isLate}: ${due}`);
    else parts.push(due);
    if (over) parts.push(late ? ends.missed : ends.met);
    else if (!late && forecast && forecast.low > deadline) parts.push(ends.mayBeLate);
  }
  return { text: parts.join(", "), ...(title === undefined ? {} : { title }), late };
}
