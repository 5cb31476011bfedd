import { audit as auditWords } from "../messages/audit";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";

/** Says whether the records that seal the logs of runs are in the list; without them numbers are missing. */
export function Seals({ shown, show }: { shown: boolean; show: (shown: boolean) => void }) {
  return (
    <p className={css.note}>
      {shown ? auditWords.sealsShown : auditWords.sealsHidden}{" "}
      <Button kind="quiet" onClick={() => show(!shown)}>
        {shown ? auditWords.hideSeals : auditWords.showSeals}
      </Button>
    </p>
  );
}
