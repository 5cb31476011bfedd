// Which steps of a comparison are shown, and in which order.
import type { CompareRunsQuery } from "../api/gen/graphql";

export type ComparedStep = NonNullable<CompareRunsQuery["compareRuns"]>["steps"][number];
export type CompareSort = "slower" | "name";

/** How much longer the step took in B; null when it did not end in both. */
export function slowedBy({ a, b }: ComparedStep): number | null {
  return a?.durationMs == null || b?.durationMs == null ? null : b.durationMs - a.durationMs;
}

/** The steps to show: those that differ, or all. They come in the order of the plan unless `sort` says otherwise. */
export function shownSteps(
  steps: readonly ComparedStep[],
  all: boolean,
  sort: CompareSort | undefined,
): readonly ComparedStep[] {
  const shown = all ? steps : steps.filter(({ changes }) => changes.length > 0);
  if (sort === "name") return shown.toSorted((x, y) => x.stepId.localeCompare(y.stepId, "en", { numeric: true }));
  if (sort === "slower") return shown.toSorted((x, y) => (slowedBy(y) ?? -Infinity) - (slowedBy(x) ?? -Infinity));
  return shown;
}
