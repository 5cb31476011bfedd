import { m } from "../messages";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import form from "../styles/Form.module.css";
import { type Column, COLUMNS } from "./columns";

interface ColumnsDialogProps {
  shown: readonly Column[];
  /** Shows these columns; null the usual ones. */
  choose: (columns: Column[] | null) => void;
  close: () => void;
}

/** Chooses the columns of the list. A choice applies at once; the last column cannot be taken away. */
export function ColumnsDialog({ shown, choose, close }: ColumnsDialogProps) {
  return (
    <Dialog title={m.runs.columnsTitle} onClose={close}>
      <div className={form.stack}>
        {COLUMNS.map((column) => (
          <label key={column}>
            <input
              type="checkbox"
              checked={shown.includes(column)}
              onChange={() => {
                const next = COLUMNS.filter((other) => shown.includes(other) !== (other === column));
                if (next.length > 0) choose(next);
              }}
            />{" "}
            {m.runs.columns[column]}
          </label>
        ))}
        <p>{m.runs.columnsHint}</p>
        <div className={form.buttons}>
          <Button back onClick={() => choose(null)}>
            {m.runs.resetColumns}
          </Button>
          <Button kind="primary" onClick={close}>
            {m.runs.closeColumns}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
