import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import type { BulkRowFieldsFragment } from "../api/gen/graphql";
import { BULK_PREVIEW, header, RUN } from "../testing/fixtures";
import { description, of, refused, screen, show, vi } from "../testing/render";
import { BULK_ACTIONS, newAction } from "./action";
import { BulkBar } from "./BulkBar";
import { BulkDialog } from "./BulkDialog";
import { BulkMeter } from "./BulkMeter";
import { BulkPreview } from "./BulkPreview";
import { BulkRows } from "./BulkRows";

function sample(runId: string, over: object = {}) {
  return { runId, outcome: "APPLY", code: null, reason: "It pauses.", changes: [], ...over };
}

function text(): string {
  return screen.getByTestId("bulk-preview").textContent;
}

function row(over: Partial<BulkRowFieldsFragment>): BulkRowFieldsFragment {
  return {
    no: 1,
    runId: "run-1",
    projectId: "shop",
    environmentId: "dev",
    outcome: "ACCEPTED",
    outcomeRaw: "ACCEPTED",
    code: null,
    message: null,
    at: null,
    failed: false,
    newRunId: null,
    runStatus: null,
    planId: null,
    causeStep: null,
    causeCode: null,
    causeMessage: null,
    signal: null,
    ...over,
  };
}

const VIEWER = { actions: new Set(BULK_ACTIONS) };
const PREVIEW = { BulkPreview: { preview: { bulk: BULK_PREVIEW } } };

it("offers the actions on the selected runs, or on all that match", async () => {
  const clear = vi.fn<() => void>();
  const { user, sent } = await show(
    <BulkBar selected={[header()]} filter={{ planId: "nightly" }} more clear={clear} />,
    { answers: PREVIEW, viewer: VIEWER },
  );
  const bar = screen.getByRole("region", { name: "Selected runs" });
  expect(bar.textContent).toContain("1 run selected");
  await user.click(screen.getByRole("button", { name: "Act on all that match the filter" }));
  expect(bar.textContent).toContain("All that match");
  await user.click(screen.getByRole("button", { name: "Pause…" }));
  await vi.waitFor(() =>
    expect(of(sent, "BulkPreview")[0]).toMatchObject({ action: { bulk: { runs: { filter: { planId: "nightly" } } } } }),
  );
});

it("is off, and names who can, for actions that the viewer may do nowhere", async () => {
  await show(<BulkBar selected={[header()]} filter={{}} more={false} clear={() => {}} />, {
    viewer: { actions: new Set(["PAUSE"] as const) },
    answers: {
      RightHolders: {
        rightHolders: [{ action: "CANCEL", needs: "You need more rights.", names: ["ana"], more: false }],
      },
    },
  });
  await vi.waitFor(() =>
    expect(description(screen.getByRole("button", { name: "Emergency stop…" }))).toBe(
      "You need more rights. Who can do this: ana.",
    ),
  );
  expect(screen.getByRole("button", { name: "Pause…" }).getAttribute("aria-disabled")).toBeNull();
});

it("compares two selected runs, the older one as A", async () => {
  const [older, newer] = [header({ runId: "older", createdAt: 1 }), header({ runId: "newer", createdAt: 2 })];
  const bar = (selected: (typeof older)[]) => <BulkBar selected={selected} filter={{}} more={false} clear={() => {}} />;
  const { unmount } = await show(bar([newer]), { path: "/runs", viewer: VIEWER });
  expect(description(screen.getByRole("button", { name: "Compare" }))).toBe("Select exactly two runs to compare them.");
  unmount();
  const { user, path, search } = await show(bar([newer, older]), { path: "/runs", viewer: VIEWER });
  await user.click(screen.getByRole("button", { name: "Compare" }));
  await vi.waitFor(() => expect([path(), search()]).toEqual(["/compare", { a: "older", b: "newer" }]));
});

it("counts the runs, asks for their number above ten, and sends the count that was read", async () => {
  const { user, sent } = await show(
    <BulkDialog action={newAction("PAUSE")} runs={{ ids: [RUN] }} onClose={() => {}} />,
    { answers: { ...PREVIEW, SignalRuns: refused("BULK_MOVED", "It is 201 runs now.") } },
  );
  await vi.waitFor(() => expect(screen.getByTestId("bulk-preview").textContent).toContain("200 runs"));
  expect(screen.getByTestId("bulk-preview").textContent).toContain("3 runs: The run has ended. RUN_TERMINAL");
  await user.type(screen.getByLabelText(/^Reason/), "maintenance");
  const send = screen.getByRole<HTMLButtonElement>("button", { name: "Pause 200 runs" });
  expect(send.disabled).toBe(true);
  await user.type(screen.getByLabelText(/^Type 200 to confirm/), "200");
  await user.click(send);
  await vi.waitFor(() => expect(of(sent, "SignalRuns")).toHaveLength(1));
  expect(of(sent, "SignalRuns")[0]).toMatchObject({ input: { reason: "maintenance", expectedCount: 200 } });
  expect((await screen.findByRole("alert")).textContent).toMatch(/^The runs that match have changed/);
});

it("offers only what can apply to the selected runs, and says how many of each there are", async () => {
  const failed = header({ runId: "f", status: "FAILED", failedSteps: 1 });
  const { user, sent, unmount } = await show(
    <BulkBar selected={[failed, header({ runId: "r" })]} filter={{}} more={false} clear={() => {}} />,
    { answers: PREVIEW, viewer: VIEWER },
  );
  expect(screen.getByRole("region").textContent).toContain("2 runs selected: 1 ended, 1 active");
  await user.click(screen.getByRole("button", { name: "Rerun…" }));
  await vi.waitFor(() =>
    expect(of(sent, "BulkPreview")[0]).toMatchObject({
      action: { bulk: { runs: { ids: ["f"] }, action: { rerun: { from: { failed: true }, params: null } } } },
    }),
  );
  unmount();
  await show(<BulkBar selected={[failed]} filter={{}} more={false} clear={() => {}} />, { viewer: VIEWER });
  const pause = screen.getByRole("button", { name: "Pause…" });
  expect(pause.getAttribute("aria-disabled")).toBe("true");
  expect(description(pause)).toBe("None of the selected runs is running.");
});

it("reruns everything of runs in which every step succeeded", async () => {
  const green = header({ runId: "g", status: "COMPLETED", failedSteps: 0 });
  const { user, sent } = await show(<BulkBar selected={[green]} filter={{}} more={false} clear={() => {}} />, {
    viewer: VIEWER,
    answers: PREVIEW,
  });
  await user.click(screen.getByRole("button", { name: "Rerun…" }));
  await vi.waitFor(() =>
    expect(of(sent, "BulkPreview")[0]).toMatchObject({
      action: { bulk: { action: { rerun: { from: { start: true } } } } },
    }),
  );
});

it("previews a rerun with other parameters and from a chosen step, and sends it", async () => {
  const { user, sent } = await show(
    <BulkDialog action={newAction("RERUN")} runs={{ ids: ["f"] }} onClose={() => {}} />,
    {
      answers: {
        BulkPreview: { preview: { bulk: { count: 1, excluded: [], refusals: [], samples: [] } } },
        RunParams: { run: { request: { params: { day: 0 } } } },
        SignalRuns: refused("INTERNAL", "not now"),
      },
    },
  );
  await user.click(screen.getByRole("radio", { name: /^From one step/ }));
  await user.type(screen.getByLabelText(/^First step/), "load");
  await user.click(screen.getByRole("radio", { name: "The same for all of them" }));
  await user.click(await screen.findByRole("button", { name: "JSON" }));
  const json = screen.getByLabelText("Parameters (JSON)");
  fireEvent.change(json, { target: { value: "{" } });
  expect(screen.getByTestId("bulk-preview").textContent).toBe("Correct the parameters above. The preview follows.");
  expect(screen.getByRole("button", { name: "Rerun 1 run" }), "the title keeps the number").toBeDefined();
  fireEvent.change(json, { target: { value: '{"day":1}' } });
  await user.type(screen.getByLabelText(/^Reason/), "again");
  const send = screen.getByRole<HTMLButtonElement>("button", { name: "Rerun 1 run" });
  await vi.waitFor(() => expect(send.disabled).toBe(false));
  await user.click(send);
  await vi.waitFor(() => expect(of(sent, "SignalRuns")).toHaveLength(1));
  expect(of(sent, "SignalRuns")[0]).toMatchObject({
    input: { action: { rerun: { from: { steps: ["load"] }, params: { day: 1 }, reason: "again" } }, expectedCount: 1 },
  });
});

it("says each thing once: refusals with their number, the first runs grouped by their answer", async () => {
  const no = { outcome: "REFUSED", code: "FORBIDDEN", reason: "You need the Admin role." };
  const refusals = [{ code: "FORBIDDEN", reason: "You need the Admin role.", count: 20 }];
  const all = { count: 20, excluded: [], refusals, samples: [1, 2, 3, 4, 5].map((n) => sample(`run-${n}`, no)) };
  const { unmount } = await show(<BulkPreview preview={all as never} error={null} />);
  expect(text().match(/You need the Admin role/g)).toHaveLength(1);
  expect(text()).not.toContain("checked when they are sent");
  unmount();
  const good = { count: 20, excluded: [], refusals: [], samples: [1, 2, 3, 4, 5].map((n) => sample(`run-${n}`)) };
  await show(<BulkPreview preview={good as never} error={null} />);
  expect(text().match(/It pauses\./g)).toHaveLength(1);
  expect(text()).toContain("The other 15 runs are checked when they are sent.");
});

it("leaves out runs that were already rerun, until the person includes them", async () => {
  const excluded = [{ code: "ALREADY_RERUN", reason: "already rerun", count: 2 }];
  const { user, sent } = await show(
    <BulkDialog action={newAction("RERUN")} runs={{ ids: ["a", "b", "c"] }} onClose={() => {}} />,
    { answers: { BulkPreview: { preview: { bulk: { count: 1, excluded, refusals: [], samples: [] } } } } },
  );
  await screen.findByRole("button", { name: "Rerun 1 run" });
  expect(text()).toContain("2 runs: already rerun");
  await user.click(screen.getByRole("checkbox", { name: /^Rerun also the 2 runs already rerun/ }));
  await vi.waitFor(() => expect(of(sent, "BulkPreview")).toHaveLength(2));
  expect(of(sent, "BulkPreview")).toMatchObject(
    [false, true].map((alreadyRerun) => ({ action: { bulk: { action: { rerun: { alreadyRerun } } } } })),
  );
});

it("says how many steps of a rerun run again and how many results are kept", async () => {
  const changes = [{ kind: "RERUN" }, { kind: "RERUN" }, { kind: "REUSE" }];
  const one = { count: 1, excluded: [], refusals: [], samples: [sample("run-1", { changes })] };
  await show(<BulkPreview preview={one as never} error={null} rerun />);
  expect(text()).toContain("run-1 will be rerun: 2 steps run again, 1 result is kept.");
});

it("shows a rerun whose new runs failed as failed", async () => {
  const runs = { waiting: 0, running: 0, paused: 0, completed: 0, failed: 2, cancelled: 0 };
  const bulk = {
    action: "RERUN",
    state: "DONE",
    leftOut: 12,
    counts: { total: 2, waiting: 0, accepted: 2, rejected: 0, refused: 0, notSent: 0 },
    applications: { pending: 0, delivered: 0, applied: 2, noop: 0, notApplied: 0 },
    runs,
  };
  const { container } = await show(<BulkMeter bulk={bulk as never} />);
  const width = (part: string): string | null | undefined =>
    container.querySelector(`[data-part=${part}]`)?.getAttribute("width");
  expect([width("applied"), width("failed")]).toEqual(["0", "100"]);
  expect(container.textContent).toContain("2 of 2 sent");
  expect(container.textContent).toContain("12 left out: already rerun");
  expect(screen.getByTestId("bulk-runs").textContent).toContain("2 failed");
});

it("names the plan and the cause of each run, and counts equal causes", async () => {
  const red = {
    planId: "nightly",
    runStatus: "FAILED",
    causeStep: "Build payments",
    causeCode: "EXIT_STATUS",
    causeMessage: "ERROR: relation raw_orders does not exist\nLINE 3",
  } as const;
  await show(
    <BulkRows rows={[row(red), row({ ...red, no: 2 }), row({ no: 3, planId: "hourly", runStatus: "COMPLETED" })]} />,
  );
  const sentence = "relation raw_orders does not exist · Build payments";
  expect(screen.getByRole("list", { name: "Why runs failed" }).textContent).toBe(`2 failed: ${sentence}`);
  const [, first, , third] = screen.getAllByRole("row").map(({ textContent }) => textContent);
  expect(first).toContain("nightly");
  expect(first).toContain(`${sentence} EXIT_STATUS`);
  expect(third).toContain("hourly");
});

it("says what became of the runs, with one column for outcome and receipt", async () => {
  await show(
    <BulkRows
      rows={[
        row({ newRunId: "again-1", runStatus: "FAILED" }),
        row({ no: 2, outcome: "REJECTED", message: "The run has ended.", code: "RUN_TERMINAL" }),
        row({ no: 3, outcome: "REFUSED", message: "You need the Admin role.", code: "FORBIDDEN" }),
        row({ no: 4, outcome: "NOT_SENT" }),
      ]}
    />,
  );
  const [, first, second, third, fourth] = screen.getAllByRole("row").map(({ textContent }) => textContent);
  expect(first).toContain("New run again-1 Failed");
  expect(second).toContain("Refused by dvt: The run has ended.");
  expect(third).toContain("Could not be sent: You need the Admin role.");
  expect(fourth).toContain("Stopped before it was sent");
  expect(screen.getAllByRole("columnheader").map(({ textContent }) => textContent)).not.toContain("Receipt");
});
