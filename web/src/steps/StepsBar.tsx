import { Suspense, useState } from "react";
import { inOrder, MOST_STEPS, SEVERAL, type Several } from "../actions/several";
import { useRefusalOfView } from "../actions/useRefusal";
import css from "../styles/Bulk.module.css";
import { m } from "../messages";
import { several as words } from "../messages/several";
import { useOrder } from "../runstate/context";
import { Button } from "../ui/Button";
import { lazyPart } from "../ui/lazyPart";

const SeveralDialog = lazyPart(() => import("../actions/SeveralDialog").then((part) => part.SeveralDialog));

interface StepsBarProps {
  runId: string;
  selected: ReadonlySet<string>;
  clear: () => void;
}

/** The actions on the selected steps. Each button opens a dialog. */
export function StepsBar({ runId, selected, clear }: StepsBarProps) {
  const order = useOrder();
  const [asking, setAsking] = useState<{ action: Several; stepIds: readonly string[] } | null>(null);
  return (
    <>
      {selected.size > 0 && (
        <div className={`${css.bar} ${css.overActions}`} data-bar role="region" aria-label={words.bar}>
          <strong>{words.selected(selected.size)}</strong>
          {SEVERAL.map((action) => (
            <Open
              key={action}
              action={action}
              tooMany={selected.size > MOST_STEPS}
              open={() => setAsking({ action, stepIds: inOrder(action, selected, order) })}
            />
          ))}
          <span className={css.end}>
            <Button kind="quiet" onClick={clear}>
              {words.clear} <kbd>Esc</kbd>
            </Button>
          </span>
        </div>
      )}
      {asking && (
        <Suspense>
          <SeveralDialog
            action={asking.action}
            runId={runId}
            stepIds={asking.stepIds}
            onClose={() => setAsking(null)}
          />
        </Suspense>
      )}
    </>
  );
}

function Open({ action, tooMany, open }: { action: Several; tooMany: boolean; open: () => void }) {
  const refused = useRefusalOfView(action);
  return (
    <Button refusal={tooMany ? words.tooMany(MOST_STEPS) : refused} onClick={open}>
      {m.action[action]}…
    </Button>
  );
}
