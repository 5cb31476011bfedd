import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { useRunActions } from "../actions/context";
import { useCopySubject } from "../copyas/offer";
import { m } from "../messages";
import { useRunStore } from "../runstate/context";
import { RESET_STEP_PARAMS, readLog, RUN_VIEWS } from "../address/views";
import { useKeys } from "../ui/keys";
import { usePaletteEntries } from "../ui/paletteEntries";
import { runEntries } from "./runEntries";
import { FIRST_VIEW } from "./RunTabs";

interface RunKeysProps {
  chosen: string | null;
  close: () => void;
}

/** The keys of a run's page. None of them sends anything: those of actions open the same dialog as the button. */
export function RunKeys({ chosen, close }: RunKeysProps) {
  const store = useRunStore();
  const navigate = useNavigate({ from: "/runs/$runId" });
  const { actions, act, menu } = useRunActions();
  const failing = (): string | null => {
    if (chosen !== null && store.step(chosen)?.status === "FAILED") return chosen;
    return store.header()?.rootCause?.stepId ?? null;
  };
  const views = Object.fromEntries(
    RUN_VIEWS.map((view, i) => [
      String(i + 1),
      {
        does: m.run.tabs[view],
        run: () => void navigate({ search: (old) => ({ ...old, view: view === FIRST_VIEW ? undefined : view }) }),
      },
    ]),
  );
  useKeys({
    ...views,
    r: {
      does: m.runKeys.retry,
      run: () => {
        const stepId = failing();
        if (stepId !== null) act("RETRY_STEP", stepId);
      },
    },
    P: { does: m.runKeys.pause, run: () => act(store.header()?.status === "PAUSED" ? "RESUME" : "PAUSE", null) },
    l: {
      does: m.runKeys.log,
      run: () => {
        const step = failing() ?? chosen;
        if (step !== null)
          void navigate({ search: (old) => ({ ...old, ...RESET_STEP_PARAMS, step, tab: "log" }), state: readLog });
      },
    },
    ".": { does: m.runKeys.menu, run: menu },
  });
  const openStep = (step: string): void => void navigate({ search: (old) => ({ ...old, ...RESET_STEP_PARAMS, step }) });
  useCopySubject(() => ({ of: "run", runId: store.header()?.runId ?? "" }));
  const compare = (a: string | undefined): void =>
    void navigate({ to: "/compare", search: { a, b: store.header()?.runId } });
  usePaletteEntries((typed) => runEntries({ store, actions, chosen, act, openStep, compare }, typed));
  useEffect(() => {
    if (chosen === null) return;
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) close();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [chosen, close]);
  return null;
}
