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
