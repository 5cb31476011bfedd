import { expect, it } from "vitest";
import { ANSWERS, available, header, REFUSED, step, store } from "../testing/fixtures";
import { description, screen, show } from "../testing/render";
import { ActionButton } from "./ActionButton";
import { ActionMenu } from "./ActionMenu";

const ACTIONS = {
  run: new Map([REFUSED, available("PAUSE", { strength: "REVERSIBLE" })].map((entry) => [entry.action, entry])),
  step: () => new Map([["RETRY_STEP", available("RETRY_STEP")] as const]),
};

it("lists the actions on the run and on the step, and opens the confirmation of the one that is chosen", async () => {
  const { user, act } = await show(<ActionMenu stepId="stg_orders" onClose={() => {}} />, { actions: ACTIONS });
  expect(screen.getAllByRole("heading", { level: 3 }).map((head) => head.textContent)).toEqual([
    "stg_orders",
    "This run",
  ]);
  await user.click(screen.getByRole("button", { name: "Retry step…" }));
  expect(act).toHaveBeenCalledExactlyOnceWith("RETRY_STEP", "stg_orders");
});

it("explains a refusal with rule, policy and who could, and writes a request to them", async () => {
  const { user, act } = await show(<ActionMenu stepId={null} onClose={() => {}} />, {
    actions: ACTIONS,
    viewer: { policyVersion: 41 },
  });
  await user.click(screen.getByText("Not available: Cancel run"));
  const cancel = screen.getByRole("button", { name: "Cancel run…" });
  await user.click(cancel);
  expect(act).not.toHaveBeenCalled();
  expect(description(cancel)).toMatch(/Needs Engineer.*Who can do this: ana, @data-eng\.$/);
  await user.click(screen.getByRole("button", { name: "Copy request" }));
  expect(await navigator.clipboard.readText()).toMatch(
    /^Could you do this for me\? Cancel run: nightly[^]*policy version 41/,
  );
});

it("opens the confirmation by a button, which says why when it cannot", async () => {
  const { user, act } = await show(
    <>
      <ActionButton action="PAUSE" shortcut="P" />
      <ActionButton action="RESUME" />
    </>,
    { actions: ACTIONS },
  );
  await user.click(screen.getByRole("button", { name: "Pause…" }));
  expect(act).toHaveBeenCalledExactlyOnceWith("PAUSE", null);
  const resume = screen.getByRole("button", { name: "Resume…" });
  expect(description(resume)).toBe("Checking what you may do…");
});

it("does not list what would change nothing among the possible actions", async () => {
  const run = new Map(
    [available("PAUSE"), available("RESUME", { outcome: "NOOP", reason: "The run is already running." })].map(
      (entry) => [entry.action, entry] as const,
    ),
  );
  await show(<ActionMenu stepId={null} onClose={() => {}} />, { actions: { run } });
  expect(screen.getByText("Not available: Resume")).toBeDefined();
  expect(screen.getByRole("button", { name: "Resume…" }).closest("details"), "it is folded").not.toBeNull();
});

it("retries all failed steps in one action", async () => {
  const steps = ["a", "b", "c"].map((id) => step(id, { status: id === "c" ? "SUCCESS" : "FAILED" }));
  const { user } = await show(<ActionMenu stepId={null} onClose={() => {}} />, {
    actions: ACTIONS,
    run: store(header(), {}, steps),
    answers: { Preview: { preview: ANSWERS.data.preview } },
  });
  await user.click(screen.getByRole("button", { name: "Retry all 2 failed steps…" }));
  expect(screen.getByRole("dialog").textContent).toContain("Retry 2 steps");
});
