import css from "./TimeMachine.module.css";
import type { Mark } from "./useMarks";

interface MarksProps {
  marks: readonly Mark[];
  head: number;
}

/** Marks along the slider, which snaps to them and says what they are. */
export function Marks({ marks, head }: MarksProps) {
  if (head < 2) return null;
  return (
    <span className={css.marks} aria-hidden="true">
      {marks.map(({ seq, kind }) => (
        <span
          key={`${kind} ${seq}`}
          className={css.mark}
          data-mark={kind}
          style={{ left: `${((seq - 1) / (head - 1)) * 100}%` }}
        />
      ))}
    </span>
  );
}
