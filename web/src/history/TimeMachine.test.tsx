import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { header, RUN, SEQ, store } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import { TimeMachine } from "./TimeMachine";

const MOMENTS = {
  MomentBefore: { run: { events: { edges: [{ node: { runSeq: 811, persistedAt: "2026-11-21T03:07:44Z" } }] } } },
  MomentsAfter: { run: { events: { edges: [{ node: { runSeq: 813, persistedAt: "2026-11-21T03:07:46Z" } }] } } },
};

async function machine(at: number | null) {
  return show(<TimeMachine runId={RUN} live={store(header())} at={at} diff={null} />, { answers: MOMENTS });
}

it("goes to the event before and after by keys, and back to the present", async () => {
  const { user, search } = await machine(812);
  await user.keyboard("[[");
  await vi.waitFor(() => expect(search()).toMatchObject({ at: 811 }));
  await user.keyboard("]");
  await vi.waitFor(() => expect(search()).toMatchObject({ at: 813 }));
  await user.keyboard("L");
  await vi.waitFor(() => expect(search()).not.toHaveProperty("at"));
});

it("names the shown position, and goes to the position of the slider", async () => {
  const { search } = await machine(812);
  const slider = screen.getByRole("slider", { name: "Position in the log" });
  expect(slider.getAttribute("aria-valuetext")).toBe(`seq 812 of ${SEQ}`);
  fireEvent.change(slider, { target: { value: "400" } });
  expect(slider, "it does not move back before the page has the new position").toHaveProperty("value", "400");
  await vi.waitFor(() => expect(search()).toMatchObject({ at: 400 }));
});

it("has no event after the newest, and offers no way back while it is now", async () => {
  const { user } = await machine(null);
  await user.click(screen.getByRole("button", { name: "Time machine" }));
  expect(screen.getByRole("button", { name: "The event after" }).getAttribute("aria-disabled")).toBe("true");
  expect(screen.queryByRole("button", { name: /^Live/ })).toBeNull();
});

it("is a thin line until one opens it, with marks where something happened", async () => {
  const events = {
    edges: [{ node: { runSeq: 900, eventType: "StepFailed", stepId: "load", payload: {} } }],
  };
  const { user, container, search } = await show(
    <TimeMachine runId={RUN} live={store(header())} at={null} diff={null} />,
    {
      answers: { ...MOMENTS, RunMarks: { run: { events } } },
    },
  );
  expect(screen.queryByRole("button", { name: "Play the log" })).toBeNull();
  expect(screen.getByRole("slider", { name: "Position in the log" })).toBeDefined();
  await user.click(screen.getByRole("button", { name: "Time machine" }));
  expect(screen.getByRole("button", { name: "Play the log" })).toBeDefined();
  await vi.waitFor(() => expect(container.querySelector('[data-mark="failure"]')).not.toBeNull());
  fireEvent.change(screen.getByRole("slider"), { target: { value: "897" } });
  await vi.waitFor(() => expect(search()).toMatchObject({ at: 900 }));
});
