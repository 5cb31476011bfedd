import { useEffect, useMemo, useState } from "react";
import { keepLayout, keptLayout } from "./cache";
import { type Layout, layout, LAYOUT_VERSION } from "./layout";
// oxlint-disable-next-line import/default -- made by the build
import workerUrl from "./layout.worker?worker&url";
import type { Shape } from "../topology/shape";

/** Above this number of steps a worker lays them out, and the browser caches the layout. */
const MANY_STEPS = 1_000;

/**
 * The layout of a plan; null while a worker computes it. A large one is cached under the plan's sha256, if that is
 * given.
 */
export function useLayout(shape: Shape, planSha256: string | null): Layout | null {
  const many = shape.ids.length > MANY_STEPS;
  const few = useMemo(() => (many ? null : layout(shape)), [shape, many]);
  const [made, setMade] = useState<{ shape: Shape; layout: Layout } | null>(null);
  useEffect(() => {
    if (!many) return;
    let wanted = true;
    let worker: Worker | null = null;
    const key = planSha256 === null ? null : `${planSha256}/${LAYOUT_VERSION}`;
    void (key === null ? Promise.resolve(null) : keptLayout(key)).then((kept) => {
      if (!wanted) return;
      if (kept?.layer.length === shape.ids.length) {
        performance.mark("dvt:layout-kept");
        setMade({ shape, layout: kept });
        return;
      }
      worker = layoutWorker();
      worker.addEventListener("message", ({ data }: MessageEvent<Layout>) => {
        performance.mark("dvt:layout-made");
        worker?.terminate();
        if (key !== null) void keepLayout(key, data);
        setMade({ shape, layout: data });
      });
      performance.mark("dvt:layout-asked");
      worker.postMessage({ layer: shape.layer, before: shape.before }, { transfer: [] });
    });
    return () => {
      wanted = false;
      worker?.terminate();
    };
  }, [shape, many, planSha256]);
  return few ?? (made?.shape === shape ? made.layout : null);
}

interface ScriptUrls {
  createPolicy(
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ): { createScriptURL(url: string): unknown };
}

let policy: ReturnType<ScriptUrls["createPolicy"]> | null = null;

/** The content security policy allows only this address for a worker. */
function layoutWorker(): Worker {
  const { trustedTypes } = globalThis as { trustedTypes?: ScriptUrls };
  policy ??=
    trustedTypes?.createPolicy("dvt-layout", {
      createScriptURL: (url) => (url === workerUrl ? url : "about:invalid"),
    }) ?? null;
  // A browser without Trusted Types accepts the plain address.
  const url = (policy?.createScriptURL(workerUrl) ?? workerUrl) as string;
  return new Worker(url, { type: "module" });
}
