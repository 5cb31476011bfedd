import { expect, it, vi } from "vitest";
import type { Sendable } from "../actions/intent";
import { AVAILABLE } from "../testing/render";
import { header, step, store } from "../testing/fixtures";
import { runEntries } from "./runEntries";

const COMPARE = ["Compare with last green", "Compare with another run…"];

function entries(typed: string) {
  const act = vi.fn<(action: Sendable, stepId: string | null) => void>();
  const openStep = vi.fn<(stepId: string) => void>();
  const run = store(header(), {}, [step("load", { name: "Load the orders" }), step("check")]);
  const compare = vi.fn<(runId: string | undefined) => void>();
  const actions = { ...AVAILABLE, lastGreen: { runId: "green" } as never };
  const found = runEntries({ store: run, actions, chosen: "load", act, openStep, compare }, typed);
  return { found, act, openStep, compare, words: found.map(({ word }) => word) };
}

it("offers the actions of the run, of the failed and of the chosen step, which open their dialogs", () => {
  const { found, words, act } = entries("");
  expect(words).toEqual(["Pause…", "Retry step stg_orders…", "Retry step Load the orders…", ...COMPARE]);
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

it("compares the run with the last green one", () => {
  const { found, compare } = entries("");
  found.find(({ word }) => word === COMPARE[0])?.act();
  expect(compare).toHaveBeenCalledWith("green");
});
