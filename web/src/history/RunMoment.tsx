import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useRef } from "react";
import { m } from "../messages";
import { ended } from "../status/look";
import { RunContext } from "../runstate/context";
import type { RunStore } from "../runstate/store";
import { usePast } from "./usePast";
import { Button } from "../ui/Button";
import { Notice, Skeleton } from "../ui/Page";
import { Problem } from "../page/Problem";
import { Time, useZone } from "../ui/Time";
import { zoneName } from "../format/format";
import css from "./RunMoment.module.css";

interface RunMomentProps {
  runId: string;
  live: RunStore;
  at: number | null;
  children: ReactNode;
}

/** Provides the run as it is now, or, in a violet frame, as it was at a position. */
export function RunMoment({ runId, live, at, children }: RunMomentProps) {
  const { store, error, again } = usePast(runId, at);
  const navigate = useNavigate({ from: "/runs/$runId" });
  const zone = useZone();
  const entered = useRef(false);
  const toNow = (): void => void navigate({ search: (old) => ({ ...old, at: undefined, diff: undefined }) });
  if (at !== null && error && error.code !== "BAD_USER_INPUT") return <Problem error={error} retry={again} />;
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
  // A reader who comes from the present keeps it, with a notice, until the moment arrives. A reader who comes by a link
  // sees nothing else.
  const past = at === null ? null : store;
  if (at === null || past) entered.current = true;
  if (at !== null && !entered.current) return <Skeleton rows={8} label={m.time.reading(at)} />;
  return (
    <div className={past ? css.past : undefined} data-testid={past ? "past" : undefined}>
      {at !== null && !past && (
        <p className={css.banner} role="status">
          {m.time.reading(at)}
        </p>
      )}
      {past && (
        <p className={css.banner} role="status">
          <strong>
            {m.time.viewing(past.seq)} <Time at={past.now()} format="clock" /> {zoneName(zone)}.
          </strong>{" "}
          {past.seq === live.seq && ended(live.header() ?? { status: "UNKNOWN" }) ? m.time.offAtEnd : m.time.off}
        </p>
      )}
      <RunContext value={past ?? live}>{children}</RunContext>
    </div>
  );
}
