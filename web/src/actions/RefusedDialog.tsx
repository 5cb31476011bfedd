import type { Availability } from "../api/model";
import { m } from "../messages";
import css from "../styles/Confirm.module.css";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { RequestAll } from "./RequestAll";

interface RefusedDialogProps {
  availability: Availability;
  reason: string;
  stepId: string | null;
  onClose: () => void;
}

/** Says why the viewer may not do what a key asked for, and who may. */
export function RefusedDialog({ availability, reason, stepId, onClose }: RefusedDialogProps) {
  return (
    <Dialog title={m.confirm.refused(m.action[availability.action])} onClose={onClose}>
      <p>{reason}</p>
      <div className={css.buttons}>
        <RequestAll denied={[availability]} stepId={stepId} />
        <Button back onClick={onClose}>
          {m.menu.close}
        </Button>
      </div>
    </Dialog>
  );
}
