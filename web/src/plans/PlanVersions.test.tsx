import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { PlanVersions } from "./PlanVersions";

const version = (planVersion: string, sha256: string) => ({
  planVersion,
  sha256,
  runs: 1,
  firstUsedAt: "2026-11-21T03:12:07Z",
  lastUsedAt: "2026-11-21T03:12:07Z",
  lastRunId: `run-${sha256}`,
});

it("warns of a version that has two contents", async () => {
  await show(<PlanVersions versions={[version("1.1", "c"), version("1.0", "a"), version("1.0", "b")]} />);
  expect(screen.getAllByTestId("same-version").map(({ textContent }) => textContent)).toEqual([
    "Version 1.0 has 2 different contents: the plan was changed and its version was not. Two runs of 1.0 may do different things. Increase planVersion with each change.",
  ]);
});
