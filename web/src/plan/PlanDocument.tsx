import { saveBlob } from "../ui/saveFile";
import type { RunHeader } from "../api/model";
import { m } from "../messages";
import { usePlan } from "./usePlan";
import { Button } from "../ui/Button";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import prose from "../styles/Prose.module.css";
import css from "../run/Details.module.css";

/** The shown part of a long document; the file has all of it. */
const SHOWN = 200_000;

/** The plan of the run, without secrets. */
export function PlanDocument({ header }: { header: RunHeader }) {
  const { answer: document, error, again } = usePlan(header.runId);
  if (error) return <Problem error={error} retry={again} />;
  if (document === undefined) return <Skeleton rows={6} label={m.details.document} />;
  if (document === null) return <p>{m.details.noDocument}</p>;
  const text = JSON.stringify(document, null, 2);
  return (
    <section className={css.overlays}>
      <h2>
        {m.details.document}{" "}
        <Button
          kind="quiet"
          onClick={() =>
            saveBlob(
              `${header.plan.planId}@${header.plan.planVersion}.json`,
              new Blob([text], { type: "application/json" }),
            )
          }
        >
          {m.details.download}
        </Button>
      </h2>
      <pre className={`${prose.said} ${css.document}`} tabIndex={0} aria-label={m.details.document}>
        {text.slice(0, SHOWN)}
      </pre>
      {text.length > SHOWN && <p>{m.details.cut}</p>}
    </section>
  );
}
