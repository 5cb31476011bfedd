import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { description, screen, show, vi } from "../testing/render";
import { type Draft, newDraft } from "./draft";
import { ParamsField } from "./ParamsField";
import { PlanField } from "./PlanField";

it("shows parameters as rows, and writes them back as JSON", async () => {
  const change = vi.fn<(text: string) => void>();
  const { user } = await show(
    <ParamsField text='{"day":"2026-11-21","n":3}' change={change} raw={false} setRaw={() => {}} problem={null} />,
  );
  fireEvent.change(screen.getByLabelText("Value of parameter 2"), { target: { value: "4" } });
  expect(JSON.parse(change.mock.calls[0]?.[0] ?? "")).toEqual({ day: "2026-11-21", n: 4 });
  await user.click(screen.getByRole("button", { name: "Remove day" }));
  expect(JSON.parse(change.mock.calls[1]?.[0] ?? "")).toEqual({ n: 3 });
});

it("keeps the text when it cannot be rows, and says why", async () => {
  await show(
    <ParamsField text="[1]" change={() => {}} raw={false} setRaw={() => {}} problem="It must be an object." />,
  );
  const text = screen.getByRole("textbox", { name: /^Parameters/ });
  expect(text.getAttribute("aria-invalid")).toBe("true");
  expect(description(text)).toBe("It must be an object.");
  expect(description(screen.getByRole("button", { name: "JSON" }))).toMatch(/cannot be shown as a form/);
});

it("takes a plan from a file, and says when it cannot", async () => {
  const change = vi.fn<(part: Partial<Draft>) => void>();
  const { user } = await show(
    <PlanField draft={newDraft("a")} change={change} problems={[]} invalid={false} describedBy="" ref={null} />,
    { answers: { KnownPlans: { runs: { edges: [] } } } },
  );
  await user.upload(screen.getByLabelText(/^From a file/), new File(['{"planId":"x"}'], "plan.json"));
  await vi.waitFor(() => expect(change).toHaveBeenCalledExactlyOnceWith({ plan: '{"planId":"x"}', source: "inline" }));
  await user.upload(screen.getByLabelText(/^From a file/), new File([new Uint8Array((4 << 20) + 1)], "big.json"));
  expect((await screen.findByRole("alert")).textContent).toBe("big.json is larger than 4 MiB.");
  await user.click(screen.getByRole("button", { name: "From a run" }));
  expect(change).toHaveBeenLastCalledWith({ source: "run" });
});
