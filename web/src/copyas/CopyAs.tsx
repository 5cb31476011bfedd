import { Suspense } from "react";
import { lazyPart } from "../ui/lazyPart";
import type { CopySubject } from "./offer";

const CopyButtons = lazyPart(() => import("./CopyButtons").then((part) => part.CopyButtons));

/** Copies a request as a command of the CLI, a call by curl, or GraphQL. */
export function CopyAs({ subject }: { subject: CopySubject }) {
  return (
    <Suspense>
      <CopyButtons subject={subject} />
    </Suspense>
  );
}
