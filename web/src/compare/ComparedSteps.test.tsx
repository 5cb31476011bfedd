import { expect, it } from "vitest";
import type { ComparedRunFieldsFragment } from "../api/gen/graphql";
import { screen, show } from "../testing/render";
import { ComparedRun } from "./ComparedRun";
import { CompareWithGreen } from "./CompareLinks";
import { ComparedSteps } from "./ComparedSteps";

const at = (ms: number): string => new Date(ms).toISOString();
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
  for (const word of ["status differs, slower", "EXIT_STATUS", "2 attempts", "+4.0 s"])
    expect(row.textContent).toContain(word);
  expect(screen.getByRole("link", { name: "Succeeded" }).getAttribute("href")).toBe("/runs/green?step=load");
  expect(screen.getByRole("link", { name: "Failed" }).getAttribute("href")).toBe("/runs/broken?step=load");
  expect(screen.getByRole("link", { name: "Log of Load in A" }).getAttribute("href")).toBe(
    "/runs/green?step=load&tab=log",
  );
  expect(screen.getByRole("link", { name: "Log of Load in B" }).getAttribute("href")).toBe(
    "/runs/broken?step=load&tab=log",
  );
  expect(screen.getByRole("row", { name: /gone/ }).textContent).toContain("only in A");
});

it("leads from a run to its comparison with the last green one", async () => {
  await show(<CompareWithGreen runId="broken" greenId="green" />);
  expect(screen.getByRole("link", { name: "Compare with last green" }).getAttribute("href")).toBe(
    "/compare?a=green&b=broken",
  );
});

it("says how long a run takes that has not ended, and how much of it was a wait for a person", async () => {
  const of = {
    ...run("r1"),
    status: "RUNNING",
    statusRaw: "RUNNING",
    plan: { planId: "nightly", planVersion: "1.0" },
    createdAt: at(0),
    startedAt: at(1_000),
    totalDurationMs: null,
    triggeredBy: "ana",
  } as ComparedRunFieldsFragment;
  const { container, unmount } = await show(<ComparedRun title="Run B" run={of} waitedMs={509_000} asOf={601_000} />);
  expect(container.textContent).toContain("running for 10 m 0 s, 8 m 29 s of it waiting for a person");
  unmount();
  const ended = await show(
    <ComparedRun title="Run B" run={{ ...of, totalDurationMs: 2_000 }} waitedMs={0} asOf={601_000} />,
  );
  expect(ended.container.textContent).toContain("Took 2.0 s · Started by ana");
});
