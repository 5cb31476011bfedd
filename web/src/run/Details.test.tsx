import { expect, it, vi } from "vitest";
import { header } from "../testing/fixtures";
import { of, screen, show } from "../testing/render";
import Details from "./Details";

/** Parts of the page are loaded when they are shown. */
const LOADED = { timeout: 10_000 };
const NOTES = { runTags: [{ tags: ["reload"] }], runNotes: [] };

it("begins with the parameters of the run, as the server shows them", async () => {
  const { sent, container } = await show(<Details header={header({ runId: "with" })} />, {
    answers: {
      RunParams: { run: { request: { params: { day: "2026-11-26", full: true, token: "***" } } } },
      RunNotes: NOTES,
    },
  });
  expect((await screen.findByText("day=2026-11-26", {}, LOADED)).closest("dd")?.textContent).toBe(
    "day=2026-11-26full=truetoken=***",
  );
  expect(container.querySelector("dt")?.textContent).toBe("Parameters");
  expect(of(sent, "RunParams")).toEqual([{ runId: "with" }]);
});

it("says that a run has no parameters, and shows tags and notes before the plan", async () => {
  await show(<Details header={header({ runId: "without" })} />, {
    answers: { RunParams: { run: { request: { params: null } } }, RunNotes: NOTES },
  });
  expect(await screen.findByText("none")).toBeDefined();
  const notes = await screen.findByRole("heading", { name: "Tags and notes" }, LOADED);
  await vi.waitFor(() =>
    expect(
      notes.compareDocumentPosition(screen.getByRole("heading", { name: "Changes to the plan" })) &
        Node.DOCUMENT_POSITION_FOLLOWING,
    ).toBeTruthy(),
  );
});

it("shows the trace id of the run, with a button that copies it", async () => {
  const { user } = await show(<Details header={header({ runId: "traced" })} />, {
    answers: { RunTrace: { run: { traceId: "4bf92f3577b34da6a3ce929d0e0e4736" } }, RunNotes: NOTES },
  });
  const id = await screen.findByText("4bf92f3577b34da6a3ce929d0e0e4736");
  expect(id.closest("div")?.querySelector("dt")?.textContent).toBe("Trace id");
  await user.click(screen.getByRole("button", { name: "Copy Trace id" }));
  expect(await navigator.clipboard.readText()).toBe("4bf92f3577b34da6a3ce929d0e0e4736");
});

const value = async (name: string) => (await screen.findByText(name)).closest("div")?.querySelector("dd")?.textContent;

it("says what the reference to the plan says, and nothing that it does not", async () => {
  const plan = {
    schemaVersion: "v1.0",
    schemaEnd: "2028-06-30",
    uri: "https://plans.example/a",
    compression: "gzip",
    mirrors: ["https://mirror.example/a"],
    answeredBy: "https://mirror.example/a",
    expiresAt: "2026-12-01T00:00:00Z",
    schemaEvolutionPath: null,
    migrationHint: { sourceVersion: "v1.0", targetVersion: "v1.2", transformScript: null },
  };
  await show(<Details header={header({ runId: "reference" })} />, {
    answers: { RunPlanRef: { run: { plan } }, RunNotes: NOTES },
  });
  expect(await value("Plan schema")).toBe("v1.0 is deprecated: dvt reads it until 2028-06-30");
  expect(await value("Plan came from")).toBe("https://mirror.example/a");
  expect(await value("Plan compression")).toBe("gzip");
  expect(await value("Plan reference expires")).toContain("2026-12-01");
  expect(await value("Migration")).toBe("v1.0 to v1.2");
  expect(screen.queryByText("Schema evolution")).toBeNull();
});
