import { expect, it } from "vitest";
import { attempt, header, RUN, step, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { StepPanel } from "./StepPanel";
import type { StepPlace } from "./stepPlace";

const PLACE = {
  tab: "error",
  attempt: null,
  line: null,
  q: "",
  full: false,
  nodes: [],
  sql: null,
} as unknown as StepPlace;

it("opens a step that was skipped after it failed at the failed attempt", async () => {
  const skip = attempt({
    logicalAttemptId: 2,
    status: "SKIPPED",
    statusRaw: "SKIPPED",
    startedAt: null,
    error: null,
    skip: { reason: "not needed", reasonCode: "OPERATOR_SKIP" },
  });
  const skipped = step("load", {
    status: "SKIPPED",
    statusRaw: "SKIPPED",
    logicalAttemptId: 2,
    attempts: [attempt(), skip],
  });
  await show(<StepPanel runId={RUN} stepId="load" place={PLACE} open={() => {}} close={() => {}} />, {
    run: store(header(), {}, [skipped]),
  });
  const chips = screen.getByRole("group", { name: "Attempts" }).querySelectorAll("button");
  expect([...chips].map((chip) => chip.getAttribute("aria-pressed"))).toEqual(["true", "false"]);
  expect(chips[1]?.textContent).toContain("Skipped");
  expect(screen.getByText("DBT_TEST_FAILED")).toBeDefined();
});
