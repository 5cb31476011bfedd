import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { BUCKETS } from "./histogram";
import type { RunQuery } from "./query";
import { RunHistogram } from "./RunHistogram";

function bars({ from, to }: { from: string; to: string }) {
  const step = (Date.parse(to) - Date.parse(from)) / BUCKETS;
  return {
    runHistogram: Array.from({ length: BUCKETS }, (_, i) => ({
      from: new Date(Date.parse(from) + i * step).toISOString(),
      total: i === 10 ? 3 : 0,
      failed: i === 10 ? 1 : 0,
    })),
  };
}

it("counts the runs of the last 24 hours, and narrows the list to the dragged span", async () => {
  const change = vi.fn<(query: RunQuery) => void>();
  const { sent, container } = await show(<RunHistogram query={{ plan: "nightly" }} filter={{}} change={change} />, {
    answers: { RunHistogram: bars },
  });
  expect(await screen.findByText("3 runs created, 1 failed")).toBeDefined();
  expect(of(sent, "RunHistogram")[0]).toMatchObject({ buckets: BUCKETS });
  const svg = container.querySelector("svg") as SVGSVGElement;
  svg.setPointerCapture = () => {};
  svg.getBoundingClientRect = () => ({ left: 0, width: 100 }) as DOMRect;
  fireEvent.pointerDown(svg, { clientX: 50 });
  fireEvent.pointerMove(svg, { clientX: 75 });
  fireEvent.pointerUp(svg);
  expect(change).toHaveBeenCalledOnce();
  const { plan, from = "", to = "" } = change.mock.calls[0]?.[0] ?? {};
  expect(plan, "the rest of the query stays").toBe("nightly");
  expect(Math.round((Date.parse(to) - Date.parse(from)) / 3_600_000)).toBe(6);
});
