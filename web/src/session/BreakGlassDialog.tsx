import { type FormEvent, useId, useRef, useState } from "react";
import { BreakGlassDocument } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { tellRightsChanged } from "../api/session";
import { useSending } from "../forms/useSending";
import { useFirstWrong, Violations, Wrong, wrongProps, wrongWith } from "../forms/Violations";
import { m } from "../messages";
import { recordDone } from "./done";
import send from "../styles/Confirm.module.css";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import type { ViewerInfo } from "./viewer";

const USUAL_MINUTES = 15;

/** Takes a role for some minutes: which, for how long, and why. */
export function BreakGlassDialog({ roles, onClose }: { roles: ViewerInfo["breakGlass"]; onClose: () => void }) {
  const [requestId, setRequestId] = useState(() => `ui-${newId()}`);
  const [role, setRole] = useState(roles[0]?.role ?? "ADMIN");
  const most = roles.find((entry) => entry.role === role)?.maxMinutes ?? 1;
  const [minutes, setMinutes] = useState(String(Math.min(USUAL_MINUTES, most)));
  const [reason, setReason] = useState("");
  const { error, refusal, send: sendOnce } = useSending();
  const form = useRef<HTMLFormElement>(null);
  const id = useId();
  const wrong = (path: string): string | null => wrongWith(error?.violations ?? [], path);
  useFirstWrong(form, error);
  const changed = (set: () => void): void => {
    set();
    setRequestId(`ui-${newId()}`); // another content needs another request id
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const input = { requestId, role, minutes: Number(minutes), reason: reason.trim() };
    sendOnce(() =>
      request(BreakGlassDocument, { input }).then(({ breakGlass }) => {
        const what = m.receipt.tookRole(m.role[role]);
        recordDone({ topic: "break-glass", what, effect: { page: "policy" }, change: breakGlass.change });
        tellRightsChanged();
        onClose();
      }),
    );
  };
  return (
    <Dialog title={m.breakGlass.title} onClose={onClose} alert>
      <form ref={form} className={css.stack} onSubmit={submit}>
        <p>{m.breakGlass.means}</p>
        <div className={css.row}>
          <label className={css.field}>
            <span>{m.policy.role}</span>
            <select
              value={role}
              onChange={(event) => {
                const next = roles.find((entry) => entry.role === event.target.value);
                if (!next) return;
                changed(() => setRole(next.role));
                setMinutes((now) => String(Math.min(Number(now), next.maxMinutes)));
              }}
            >
              {roles.map((entry) => (
                <option key={entry.role} value={entry.role}>
                  {m.role[entry.role]}
                </option>
              ))}
            </select>
          </label>
          <label className={css.field}>
            <span>{m.breakGlass.minutes(most)}</span>
            <input
              type="number"
              min={1}
              max={most}
              required
              value={minutes}
              {...wrongProps(`${id}minutes`, wrong("minutes"))}
              onChange={(event) => changed(() => setMinutes(event.target.value))}
            />
            <Wrong id={`${id}minutes`} text={wrong("minutes")} />
          </label>
        </div>
        <label className={css.field}>
          <span>{m.admin.reason}</span>
          <input
            required
            maxLength={1000}
            value={reason}
            {...wrongProps(`${id}reason`, wrong("reason"))}
            onChange={(event) => changed(() => setReason(event.target.value))}
          />
          <Wrong id={`${id}reason`} text={wrong("reason")} />
        </label>
        <Violations error={error} />
        <div className={css.buttons}>
          <Button back onClick={onClose}>
            {m.breakGlass.cancel}
          </Button>
          <button
            type="submit"
            className={send.send}
            data-danger
            disabled={refusal !== null || reason.trim() === "" || minutes === ""}
          >
            {refusal ?? m.breakGlass.take(m.role[role])}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
