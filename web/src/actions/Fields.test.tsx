import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import { type Draft, EMPTY_DRAFT } from "./draft";
import { Fields } from "./Fields";
import { newIntent, type Sendable } from "./intent";

async function fields(action: Sendable, denied = false) {
  const change = vi.fn<(part: Partial<Draft>) => void>();
  const intent = newIntent(action, RUN, "stg_orders", 2);
  const view = await show(
    <>
      <p>fields</p>
      <Fields intent={intent} draft={EMPTY_DRAFT} denied={denied} task={undefined} change={change} />
    </>,
  );
  return { ...view, change };
}

it.each([
  ["EMERGENCY_STOP", /^Force: the engine's execution/, { force: true }],
  ["RERUN", /^Everything/, { from: "start" }],
  ["APPROVE", /^Reject/, { decision: "REJECT" }],
  ["ESCALATE_ALERT", /^High/, { level: "HIGH" }],
  ["COMPLETE_MANUAL_STEP", /^Failed/, { outcome: "FAILED" }],
] as const)("offers the choices of %s as radio buttons in a named group", async (action, label, want) => {
  const { user, change } = await fields(action);
  for (const group of screen.getAllByRole("group")) expect(group.querySelector("legend")?.textContent).toMatch(/\w/);
  await user.click(screen.getByRole("radio", { name: label }));
  expect(change).toHaveBeenCalledExactlyOnceWith(want);
});

it("offers force only where the policy would not retry", async () => {
  const { unmount } = await fields("RETRY_STEP");
  expect(screen.queryByRole("checkbox")).toBeNull();
  unmount();
  const { user, change } = await fields("RETRY_STEP", true);
  await user.click(screen.getByRole("checkbox", { name: /^Force/ }));
  expect(change).toHaveBeenCalledExactlyOnceWith({ force: true });
});

it("takes the change of parameters as JSON text", async () => {
  const { user, change } = await fields("UPDATE_PARAMS");
  await user.type(screen.getByRole("textbox", { name: /^Parameters to change/ }), "1");
  expect(change).toHaveBeenCalledExactlyOnceWith({ patch: "1" });
});
