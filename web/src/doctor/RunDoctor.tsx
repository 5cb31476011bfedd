import { Stethoscope } from "lucide-react";
import { useState } from "react";
import type { RunHeader } from "../api/model";
import { m } from "../messages";
import { doctor as words } from "../messages/doctor";
import { Button } from "../ui/Button";
import { useWaits, type Wait } from "../waits/useWaits";
import { Causes } from "./Causes";
import css from "./Doctor.module.css";
import { useCauses } from "./useCauses";

const whoOf = ({ whoCould }: Wait): string[] => (whoCould.length > 0 ? [m.run.whoCanHelp(whoCould)] : []);

/** The first cause in one line that has its place before it is known; a button opens all causes below. */
export function DoctorLine({ header }: { header: RunHeader }) {
  const { answer, error } = useCauses(header);
  const [open, setOpen] = useState(false);
  const [first] = answer ?? [];
  const said = first?.title ?? (error !== null ? words.unread : answer && words.unknown);
  return (
    <>
      <p className={css.line} data-testid="doctor" title={said}>
        {said !== undefined && <Stethoscope size={16} aria-hidden="true" />}
        <span>{said}</span>
        {first && (
          <Button kind="quiet" expanded={open} onClick={() => setOpen(!open)}>
            {words.what}
          </Button>
        )}
      </p>
      {open && answer && <Causes causes={answer} />}
    </>
  );
}

/** All causes; else who can end what the run waits for, or that nothing holds it up. */
export function RunCauses({ header }: { header: RunHeader }) {
  const { answer, error } = useCauses(header);
  // The bar says what the run waits for before the wait is long enough for a cause.
  const [wait] = useWaits(header);
  const calm = wait === undefined ? words.well : [wait.message, wait.help, ...whoOf(wait)].join(" ");
  return (
    <div role="status" data-testid="doctor">
      {answer && answer.length > 0 ? (
        <Causes causes={answer} />
      ) : (
        <p>{error !== null ? words.unread : answer && calm}</p>
      )}
    </div>
  );
}
