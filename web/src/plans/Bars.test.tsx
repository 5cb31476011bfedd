import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { axisOf, Bars } from "./Bars";

const bar = (key: string, ms: number | null) => ({
  key,
  runId: key,
  ms,
  look: { glyph: "✓", tone: "success", word: "Completed" } as const,
  name: `Completed, run ${key}`,
});

it("has an axis with the longest duration and the median", async () => {
  const { container } = await show(
    <Bars label="Durations" medianMs={60_000} bars={[bar("a", 60_000), bar("b", 120_000)]} />,
  );
  expect(screen.getByText("Durations · Median 1 m 0 s")).toBeDefined();
  expect([...container.querySelectorAll("figure [aria-hidden] > span")].map((label) => label.textContent)).toEqual([
    "2 m 0 s",
    "1 m 0 s",
    "0",
  ]);
});

it("leaves out a label that would lie on another", () => {
  expect(axisOf(1_000, 990).map(({ text }) => text)).toEqual(["1.0 s", "0"]);
  expect(axisOf(1_000, null).map(({ text }) => text)).toEqual(["1.0 s", "0"]);
});
