import css from "./Gallery.module.css";
import type { State } from "./state";
import { STATES } from "./states";

/** Shows all states that fit on one page, or the one that the address names. */
export function Gallery() {
  const wanted = new URLSearchParams(location.search).get("state");
  const shown = STATES.filter((state) => (wanted === null ? state.alone !== true : state.name === wanted));
  return (
    <main
      className={css.gallery}
      data-states={STATES.filter((state) => state.alone === true)
        .map((state) => state.name)
        .join(" ")}
    >
      <h1>Gallery</h1>
      {shown.map((state) => (
        <Shown key={state.name} state={state} />
      ))}
    </main>
  );
}

function Shown({ state }: { state: State }) {
  return (
    <div className={css.state} data-state={state.name}>
      <p className={css.name}>{state.name}</p>
      <div className={css.row}>{state.show()}</div>
    </div>
  );
}
