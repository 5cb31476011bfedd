import { Stethoscope } from "lucide-react";
import { useState } from "react";
import type { RunHeader } from "../api/model";
import { doctor as words } from "../messages/doctor";
import { Button } from "../ui/Button";
import { Causes } from "./Causes";
import css from "./Doctor.module.css";
import { useCauses } from "./useCauses";

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

/** All causes, or that there are none. */
export function RunCauses({ header }: { header: RunHeader }) {
  const { answer, error } = useCauses(header);
  return (
    <div role="status" data-testid="doctor">
      {answer && answer.length > 0 ? (
        <Causes causes={answer} />
      ) : (
        <p>{error !== null ? words.unread : answer && words.well}</p>
      )}
    </div>
  );
}
