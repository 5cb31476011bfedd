import { expect, it, vi } from "vitest";
import type { Sendable } from "../actions/intent";
import { AVAILABLE } from "../testing/render";
import { header, step, store } from "../testing/fixtures";
import { runEntries } from "./runEntries";

function entries(typed: string) {
  const act = vi.fn<(action: Sendable, stepId: string | null) => void>();
  const openStep = vi.fn<(stepId: string) => void>();
  const run = store(header(), {}, [step("load", { name: "Load the orders" }), step("check")]);
  const found = runEntries({ store: run, actions: AVAILABLE, chosen: "load", act, openStep }, typed);
  return { found, act, openStep, words: found.map(({ word }) => word) };
}

it("offers the actions of the run, of the failed and of the chosen step, which open their dialogs", () => {
  const { found, words, act } = entries("");
  expect(words).toEqual(["Pause…", "Retry step stg_orders…", "Retry step Load the orders…"]);
  found[2]?.act();
  expect(act).toHaveBeenCalledWith("RETRY_STEP", "load");
});

it("finds steps by a part of their name or id", () => {
  const { found, openStep } = entries("orders");
  const steps = found.filter(({ key }) => key.startsWith("step "));
  expect(steps.map(({ hint }) => hint)).toEqual(["load"]);
  steps[0]?.act();
  expect(openStep).toHaveBeenCalledWith("load");
  expect(entries("nothing like it").found.filter(({ key }) => key.startsWith("step "))).toEqual([]);
});
