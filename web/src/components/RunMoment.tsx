import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { m } from "../messages";
import { RunContext } from "../runs/context";
import type { RunStore } from "../runs/store";
import { usePast } from "../runs/usePast";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Page";
import { Time, useZone } from "../ui/Time";
import { zoneName } from "../ui/format";
import css from "./RunMoment.module.css";

interface RunMomentProps {
  runId: string;
  live: RunStore;
  at: number | null;
  children: ReactNode;
}

/** Gives everything in it the run as it is now or, in a violet frame, as it was. */
export function RunMoment({ runId, live, at, children }: RunMomentProps) {
  const { store, error } = usePast(runId, at);
  const navigate = useNavigate({ from: "/runs/$runId" });
  const zone = useZone();
  const toNow = (): void => void navigate({ search: (old) => ({ ...old, at: undefined, diff: undefined }) });
  if (at !== null && error) {
    return (
      <Notice title={m.time.none(at)}>
        <p>
          {error.message} <code>{error.code}</code>
        </p>
        <Button kind="primary" onClick={toNow}>
          {m.time.live}
        </Button>
      </Notice>
    );
  }
  // Until the first moment is there the page shows, and says, that it is live. The tree stays, so the view keeps its place.
  const past = at === null ? null : store;
  return (
    <div className={past ? css.past : undefined} data-testid={past ? "past" : undefined}>
      {past && (
        <p className={css.banner} role="status">
          <strong>
            {m.time.viewing(past.seq)} <Time at={past.now()} format="clock" /> {zoneName(zone)}.
          </strong>{" "}
          {m.time.off}
        </p>
      )}
      <RunContext value={past ?? live}>{children}</RunContext>
    </div>
  );
}
