import type { Blocked } from "../topology/blocked";
import { stepWords } from "../status/stepLabel";
import { useRunStore, useStep } from "../runstate/context";
import { holdOf } from "../topology/hold";
import css from "./Mosaic.module.css";
import type { Mosaic } from "./place";

/** A cell this near to the top has no room for a label above it. */
const BELOW = 32;

interface CellProps {
  step: number;
  id: string;
  places: Mosaic;
  blocked: Blocked;
  /**
   * With these it is the button on the cell that has the arrow keys; without, a label for the cell under the pointer.
   */
  choose?: (stepId: string) => void;
  focusOn?: (stepId: string) => void;
  hovered?: boolean;
}

/** Marks one cell and labels it. */
export function Cell({ step: i, id, places, blocked, choose, focusOn, hovered = true }: CellProps) {
  const store = useRunStore();
  const step = useStep(id);
  if (!step) return null;
  const words = stepWords(step, blocked.count(i), blocked.has(i), holdOf(store).held.has(id));
  const place = { left: places.x[i] ?? 0, top: places.y[i] ?? 0, width: places.pitch, height: places.pitch };
  const tip = (
    <span
      className={css.tip}
      data-side={place.left > places.width / 2 ? "left" : "right"}
      data-below={place.top < BELOW || undefined}
      aria-hidden="true"
    >
      {words}
    </span>
  );
  if (!choose || !focusOn) {
    return (
      <span className={css.cell} style={place} data-hovered>
        {tip}
      </span>
    );
  }
  return (
    <button
      type="button"
      className={css.cell}
      style={place}
      aria-label={words}
      data-hovered={hovered || undefined}
      onClick={() => focusOn(id)}
      onKeyDown={(event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        choose(id);
      }}
    >
      {tip}
    </button>
  );
}
