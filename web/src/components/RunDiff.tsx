import { Suspense } from "react";
import { m } from "../messages";
import { later } from "../ui/Later";

const Body = later(() => import("./RunDiffBody").then((part) => part.RunDiffBody));

export interface RunDiffProps {
  runId: string;
  from: number;
  to: number;
  /** How many decisions and steps are named, of each. */
  most: number;
}

/** What changed in a run between two positions of its log: what people decided, then the steps. */
export function RunDiff(props: RunDiffProps) {
  return (
    <Suspense fallback={<p role="status">{m.diff.loading}</p>}>
      <Body {...props} />
    </Suspense>
  );
}
