// The comparison has the older run as A, so that changes read from A to B.
import { Link } from "@tanstack/react-router";
import { m } from "../messages";

/** Compares a run with the last successful run of its plan. */
export function CompareWithGreen({ runId, greenId }: { runId: string; greenId: string }) {
  return (
    <Link to="/compare" search={{ a: greenId, b: runId }} preload={false}>
      {m.compare.withGreen}
    </Link>
  );
}
