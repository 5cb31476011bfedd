import { useRunActions } from "../actions/context";
import { explain } from "../actions/refusal";
import { evidenceOf } from "../actions/useAvailability";
import { instant } from "../api/model";
import { m } from "../messages";
import { Time } from "../ui/Time";
import css from "./StepPanel.module.css";

/** The instructions of a manual step, its deadline, and why the viewer may not complete it. */
export function StepManual({ stepId }: { stepId: string }) {
  const { actions } = useRunActions();
  const task = actions?.task(stepId);
  if (!task) return null;
  const refused = explain(task.action);
  const evidence = evidenceOf(task);
  return (
    <div className={css.manual} data-testid="manual">
      <p>
        {m.step.manual} <Time at={instant(task.since)} />
        {task.deadline !== null && (
          <>
            {" "}
            · {m.step.until} <Time at={instant(task.deadline)} format="full" />
          </>
        )}
      </p>
      {task.instructions && <p className={css.instructions}>{task.instructions}</p>}
      {evidence.length > 0 && (
        <p>
          {m.confirm.evidence}: {evidence.join(", ")}
        </p>
      )}
      {refused && <p className={css.refused}>{refused}</p>}
    </div>
  );
}
