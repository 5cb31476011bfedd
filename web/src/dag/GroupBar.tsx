import { useEffect, useReducer } from "react";
import { m } from "../messages";
import { useRunStore } from "../runs/context";
import { NO_STEPS, STANDINGS, standingOf, type Tally } from "../runs/standing";
import type { RunStore } from "../runs/store";
import { count } from "../ui/format";
import type { Bar } from "./fold";
import css from "./Graph.module.css";
import { nodeId } from "./GraphNode";
import { NODE } from "./layout";

interface GroupBarProps {
  bar: Bar;
  x: number;
  y: number;
  tabStop: boolean;
  open: (group: string) => void;
}

/** A collapsed group: how its steps stand, as a bar. */
export function GroupBar({ bar, x, y, tabStop, open }: GroupBarProps) {
  const store = useRunStore();
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const members = new Set(bar.members);
    return store.subscribeSteps((changed) => {
      for (const id of changed) {
        if (!members.has(id)) continue;
        redraw();
        return;
      }
    });
  }, [store, bar]);
  const tally = tallyOf(store, bar.members);
  const words = m.graph.group(
    bar.group,
    bar.members.length,
    STANDINGS.filter((standing) => tally[standing] > 0).map((standing) => `${count(tally[standing])} ${standing}`),
  );
  return (
    <button
      id={nodeId(bar.id)}
      data-step={bar.id}
      type="button"
      className={css.group}
      aria-label={words}
      title={words}
      tabIndex={tabStop ? 0 : -1}
      style={{ left: x, top: y, width: NODE.width, height: NODE.height }}
      onClick={() => open(bar.group)}
    >
      <span className={css.groupName}>
        <span className={css.label}>{bar.group}</span> {count(bar.members.length)}
      </span>
      <span className={css.counts}>
        {STANDINGS.map(
          (standing) =>
            tally[standing] > 0 && (
              <span key={standing} data-standing={standing} style={{ flexGrow: tally[standing] }} />
            ),
        )}
      </span>
    </button>
  );
}

function tallyOf(store: RunStore, members: readonly string[]): Tally {
  const tally = { ...NO_STEPS };
  for (const id of members) {
    const step = store.step(id);
    if (step) tally[standingOf(step)] += 1;
  }
  return tally;
}
