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
          a: {
            status: "SUCCESS",
            statusRaw: "SUCCESS",
            durationMs: 1_000,
            attempts: 1,
            errorCode: null,
            keptFrom: null,
            hasRun: true,
          },
          b: {
            status: "FAILED",
            statusRaw: "FAILED",
            durationMs: 5_000,
            attempts: 2,
            errorCode: "EXIT_STATUS",
            keptFrom: null,
            hasRun: true,
          },
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

it("says that a rerun kept a result, and links no log of a step that did not run", async () => {
  const side = { statusRaw: "", durationMs: null, attempts: 1, errorCode: null };
  await show(
    <ComparedSteps
      a={run("first")}
      b={run("again")}
      steps={[
        {
          stepId: "load",
          name: "Load",
          changes: [],
          a: { ...side, status: "SUCCESS", durationMs: 500, keptFrom: null, hasRun: true },
          b: { ...side, status: "SUCCESS", keptFrom: "dafb2e61-0000-4000-8000-000000000000", hasRun: false },
        },
      ]}
    />,
  );
  const row = screen.getByRole("row", { name: /Load/ });
  expect(row.textContent).toContain("Kept from dafb2e61");
  expect(screen.getByRole("link", { name: "Log of Load in A" })).toBeTruthy();
  expect(screen.queryByRole("link", { name: "Log of Load in B" })).toBeNull();
});

it("names the run that a run reruns", async () => {
  const of = {
    ...run("r2"),
    parentRunId: "r1",
    status: "FAILED",
    statusRaw: "FAILED",
    plan: { planId: "nightly", planVersion: "1.0" },
    createdAt: at(0),
    startedAt: at(1_000),
    totalDurationMs: 2_000,
    triggeredBy: null,
  } as ComparedRunFieldsFragment;
  await show(
    <ComparedRun title="Run B" run={of} other={{ title: "Run A", runId: "r1" }} waitedMs={0} asOf={601_000} />,
  );
  expect(screen.getByRole("heading").textContent).toBe("Run B · rerun of Run A");
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
  const { container, unmount } = await show(
    <ComparedRun title="Run B" other={{ title: "Run A", runId: "r0" }} run={of} waitedMs={509_000} asOf={601_000} />,
  );
  expect(container.textContent).toContain("running for 10 m 0 s, 8 m 29 s of it waiting for a person");
  unmount();
  const ended = await show(
    <ComparedRun
      title="Run B"
      other={{ title: "Run A", runId: "r0" }}
      run={{ ...of, totalDurationMs: 2_000 }}
      waitedMs={0}
      asOf={601_000}
    />,
  );
  expect(ended.container.textContent).toContain("Took 2.0 s · Started by ana");
});
