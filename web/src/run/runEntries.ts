// What the page of a run offers to the palette: the actions that the viewer may do now, and the steps by name.
import { SENDABLE, type Sendable } from "../actions/intent";
import type { AvailableActions } from "../actions/useAvailability";
import { shortId } from "../format/format";
import { m } from "../messages";
import { titleOf } from "../runstate/stepTitle";
import type { RunStore } from "../runstate/store";
import type { PaletteEntry } from "../ui/paletteEntries";

const MOST_STEPS = 12;

interface RunEntries {
  store: RunStore;
  actions: AvailableActions | null;
  chosen: string | null;
  act: (action: Sendable, stepId: string | null) => void;
  openStep: (stepId: string) => void;
  /** Opens the comparison of a run, or the choice of one, with this run. */
  compare: (runId: string | undefined) => void;
}

export function runEntries(
  { store, actions, chosen, act, openStep, compare }: RunEntries,
  typed: string,
): PaletteEntry[] {
  const failing = store.header()?.rootCause?.stepId ?? null;
  const subjects = [...new Set([null, failing, chosen])];
  const actionEntries = subjects.flatMap((stepId) => {
    const may = stepId === null ? actions?.run : actions?.step(stepId);
    return SENDABLE.filter((action) => may?.get(action)?.outcome === "APPLY").map((action) => ({
      key: `${action} ${stepId ?? ""}`,
      word: `${stepId === null ? m.action[action] : `${m.action[action]} ${titleOf(store, stepId)}`}…`,
      act: () => act(action, stepId),
    }));
  });
  const parent = store.header()?.parentRunId ?? null;
  const green = actions?.lastGreen?.runId ?? null;
  const compareEntries = [
    ...(green === null ? [] : [{ key: "compare green", word: m.compare.withGreen, act: () => compare(green) }]),
    ...(parent === null
      ? []
      : [{ key: "compare parent", word: m.compare.withParent(shortId(parent)), act: () => compare(parent) }]),
    { key: "compare other", word: m.compare.withOther, act: () => compare(undefined) },
  ];
  return [...actionEntries, ...compareEntries, ...stepEntries(store, openStep, typed)];
}

function nameOf(store: RunStore, stepId: string): string {
  return store.step(stepId)?.name ?? stepId;
}

/** Steps whose name or id contains the text; none while nothing is typed, because they would push all else away. */
function stepEntries(store: RunStore, openStep: (stepId: string) => void, typed: string): PaletteEntry[] {
  const text = typed.trim().toLowerCase();
  if (text === "") return [];
  const found = store.order().filter((id) => `${id} ${nameOf(store, id)}`.toLowerCase().includes(text));
  return found.slice(0, MOST_STEPS).map((id) => ({
    key: `step ${id}`,
    word: m.palette.step(nameOf(store, id)),
    hint: id,
    act: () => openStep(id),
  }));
}
