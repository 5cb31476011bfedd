import { useEffect, useReducer } from "react";
import { pictures } from "../messages/pictures";
import { useRunStore } from "../runstate/context";
import { EMPTY_TALLY, STEP_GROUPS, stepGroup, type Tally } from "../status/stepGroup";
import type { RunStore } from "../runstate/store";
import { count } from "../format/format";
import { holdOf } from "../topology/hold";
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

/** A collapsed group, with a bar of the statuses of its steps. */
export function GroupBar({ bar, x, y, tabStop, open }: GroupBarProps) {
  const store = useRunStore();
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const members = new Set(bar.members);
    return store.subscribeSteps((changed) => {
      for (const id of changed) {
        // A failure elsewhere may keep a member from starting.
        if (!members.has(id) && store.step(id)?.status !== "FAILED") continue;
        redraw();
        return;
      }
    });
  }, [store, bar]);
  const tally = tallyOf(store, bar.members);
  const done = tally.ok + tally.skipped;
  const { needs } = holdOf(store);
  const behind = bar.members.filter((id) => needs.has(id)).length;
  const words = pictures.graph.group(bar.group, bar.members.length, [
    ...STEP_GROUPS.filter((group) => tally[group] > 0).map(
      (group) => `${count(tally[group])} ${pictures.mosaic.groups[group].toLowerCase()}`,
    ),
    ...(behind > 0 ? [pictures.graph.behind(behind)] : []),
  ]);
  return (
    <button
      id={nodeId(bar.id)}
      data-step={bar.id}
      type="button"
      className={css.group}
      data-blocked={behind > 0 || undefined}
      aria-label={words}
      title={words}
      tabIndex={tabStop ? 0 : -1}
      style={{ left: x, top: y, width: NODE.width, height: NODE.height }}
      onClick={() => open(bar.group)}
    >
      <span className={css.groupName}>
        <span className={css.label}>{bar.group}</span> {pictures.graph.done(done, bar.members.length)}
      </span>
      <span className={css.counts}>
        {STEP_GROUPS.map(
          (group) => tally[group] > 0 && <span key={group} data-group={group} style={{ flexGrow: tally[group] }} />,
        )}
      </span>
    </button>
  );
}

function tallyOf(store: RunStore, members: readonly string[]): Tally {
  const tally = { ...EMPTY_TALLY };
  for (const id of members) {
    const step = store.step(id);
    if (step) tally[stepGroup(step)] += 1;
  }
  return tally;
}
