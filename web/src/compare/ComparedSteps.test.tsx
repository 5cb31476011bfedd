import { expect, it } from "vitest";
import type { ComparedRunFieldsFragment } from "../api/gen/graphql";
import { screen, show } from "../testing/render";
import { CompareWithGreen } from "./CompareLinks";
import { ComparedSteps } from "./ComparedSteps";

const run = (runId: string) => ({ runId }) as ComparedRunFieldsFragment;

it("names the difference of each step, with both statuses as links", async () => {
  await show(
    <ComparedSteps
      a={run("green")}
      b={run("broken")}
      steps={[
        {
          stepId: "load",
          name: "Load",
          changes: ["STATUS", "SLOWER"],
          a: { status: "SUCCESS", statusRaw: "SUCCESS", durationMs: 1_000, attempts: 1, errorCode: null },
          b: { status: "FAILED", statusRaw: "FAILED", durationMs: 5_000, attempts: 2, errorCode: "EXIT_STATUS" },
        },
        { stepId: "gone", name: null, changes: ["REMOVED"], a: null, b: null },
      ]}
    />,
  );
  const row = screen.getByRole("row", { name: /Load/ });
  for (const word of ["other status, slower", "EXIT_STATUS", "2 attempts", "+4.0 s"])
    expect(row.textContent).toContain(word);
  expect(screen.getByRole("link", { name: "Succeeded" }).getAttribute("href")).toBe("/runs/green?step=load");
  expect(screen.getByRole("link", { name: "Failed" }).getAttribute("href")).toBe("/runs/broken?step=load");
  expect(screen.getByRole("row", { name: /gone/ }).textContent).toContain("only in A");
});

it("leads from a run to its comparison with the last green one", async () => {
  await show(<CompareWithGreen runId="broken" greenId="green" />);
  expect(screen.getByRole("link", { name: "Compare with last green" }).getAttribute("href")).toBe(
    "/compare?a=green&b=broken",
  );
});
