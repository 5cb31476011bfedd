import { Suspense } from "react";
import { m } from "../messages";
import { lazyPart } from "../ui/lazyPart";
import type { RunDiffProps } from "./RunDiffBody";

const Body = lazyPart(() => import("./RunDiffBody").then((part) => part.RunDiffBody));

/** The changes of a run between two positions of its log: first the decisions of people, then the steps. */
export function RunDiff(props: RunDiffProps) {
  return (
    <Suspense fallback={<p role="status">{m.diff.loading}</p>}>
      <Body {...props} />
    </Suspense>
  );
}
