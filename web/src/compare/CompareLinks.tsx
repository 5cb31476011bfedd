// Links that compare two runs: A is the older one, so that what changed reads from A to B.
import { Link } from "@tanstack/react-router";
import { m } from "../messages";

/** The search parameters of the comparison of two selected runs; the older one becomes A. */
export function compareSearchOf(
  one: { runId: string; createdAt: number },
  other: { runId: string; createdAt: number },
): { a: string; b: string } {
  const [a, b] = one.createdAt <= other.createdAt ? [one, other] : [other, one];
  return { a: a.runId, b: b.runId };
}

/** Compares a run with the last successful run of its plan. */
export function CompareWithGreen({ runId, greenId }: { runId: string; greenId: string }) {
  return (
    <Link to="/compare" search={{ a: greenId, b: runId }} preload={false}>
      {m.compare.withGreen}
    </Link>
  );
}
