import { Fragment, memo } from "react";
import { useRunStore, useStep } from "../runstate/context";
import { duration, ticking } from "../format/format";
import { m } from "../messages";
import { stepLook } from "../status/look";
import { Name } from "../ui/Name";
import { useTick } from "../ui/Time";
import type { Blocked } from "../topology/blocked";
import { lookWithTry, tryWords, useNextTry } from "../waits/retries";
import css from "./Graph.module.css";
import { LINE } from "./scene";
import { NODE } from "./layout";
import { attemptWord, stepWords } from "../status/stepLabel";

const TWO_LINES = 2 * LINE;

interface GraphNodeProps {
  id: string;
  /** The index of the step in the shape of `blocked`. */
  step: number;
  x: number;
  y: number;
  blocked: Blocked;
  behind: boolean;
  /** A failure of a step that it does not need keeps it from starting. */
  held: boolean;
  chosen: boolean;
  tabStop: boolean;
  choose: (stepId: string) => void;
}

export function nodeId(stepId: string): string {
  return `node-${stepId}`;
}

/** A name on two lines, which break at its words. One that is longer is cut in its middle. */
function Title({ text }: { text: string }) {
  if (text.length > TWO_LINES) return <Name text={text} />;
  return (
    <span className={css.title}>
      {text.split(/(?<=[_.\-/])/).map((word, i) => (
        <Fragment key={i}>
          {i > 0 && <wbr />}
          {word}
        </Fragment>
      ))}
    </span>
  );
}

/** One step as a button, large enough to be read. */
export const GraphNode = memo(function GraphNode({
  id,
  step: i,
  x,
  y,
  blocked,
  behind,
  held,
  chosen,
  tabStop,
  choose,
}: GraphNodeProps) {
  const store = useRunStore();
  const step = useStep(id);
  const runs = step?.status === "RUNNING";
  useTick(1_000, runs);
  const next = useNextTry(id);
  if (!step) return null;
  const look = lookWithTry(stepLook(step), next);
  const Icon = look.icon;
  const took =
    next !== null
      ? tryWords(next, store.now())
      : runs && step.startedAt !== null
        ? `${store.frozen() ? "≥ " : ""}${ticking(store.now() - step.startedAt)}`
        : step.durationMs === null || step.status === "SKIPPED" || step.keptFrom
          ? null
          : duration(step.durationMs);
  const kept = step.keptFrom ? look.word.toLowerCase() : null;
  const nodes = step.nodeCounts && (runs || step.status === "FAILED") ? m.step.nodes(step.nodeCounts) : null;
  const below = [kept, attemptWord(step), nodes, took].filter((part) => part !== null).join(" · ");
  const shown = [nodes, took].filter((part) => part !== null).join(", ") || null;
  const name = stepWords(step, blocked.count(i), behind, held, shown, look.word);
  return (
    <button
      id={nodeId(id)}
      data-step={id}
      type="button"
      className={css.node}
      data-tone={look.tone}
      data-blocked={behind || undefined}
      data-held={held || undefined}
      aria-label={name}
      aria-pressed={chosen}
      title={name}
      tabIndex={tabStop ? 0 : -1}
      style={{ left: x, top: y, width: NODE.width, height: NODE.height }}
      onClick={() => choose(id)}
    >
      <Icon size={16} aria-hidden="true" />
      <span className={css.label}>
        {/* The space parts two words for those who compare what is seen with the name of the button. */}
        <Title text={step.name ?? step.stepId} /> {below !== "" && <span className={css.below}>{below}</span>}
      </span>
    </button>
  );
});
