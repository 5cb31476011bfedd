// Adds or removes one grant of the policy, so that nobody has to find it among all others.
import { type FormEvent, useState } from "react";
import { newId } from "../api/newId";
import type { PolicyGrantInput, PolicyInput } from "../api/gen/graphql";
import { useSending } from "../forms/useSending";
import { Violations } from "../forms/Violations";
import { m } from "../messages";
import { tokens as words } from "../messages/tokens";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import type { DocumentPreview } from "./EditDocument";
import { SelectField, TextField } from "./Rows";

const ROLES = Object.entries(m.role);

interface GrantDialogProps {
  /** The policy in force, in the form in which it is saved. */
  policy: PolicyInput;
  /** The place of the grant to remove in the policy; null adds one. */
  remove: number | null;
  preview: DocumentPreview;
  save: (change: { document: PolicyInput; reason: string; requestId: string }) => Promise<void>;
  onClose: () => void;
}

const FRESH: PolicyGrantInput = { principal: "", role: "VIEWER", projectId: "*", environmentId: "*", expiresAt: null };

export function GrantDialog({ policy, remove, preview: Preview, save, onClose }: GrantDialogProps) {
  const [grant, setGrant] = useState(FRESH);
  const [day, setDay] = useState("");
  const [reason, setReason] = useState("");
  const [requestId, setRequestId] = useState(() => `ui-${newId()}`);
  const { error, refusal, send } = useSending();
  const set = (part: Partial<PolicyGrantInput>): void => {
    setGrant((old) => ({ ...old, ...part }));
    setRequestId(`ui-${newId()}`); // another document needs another request id
  };
  const removed = remove === null ? undefined : policy.grants[remove];
  const expiresAt = day === "" ? null : new Date(`${day}T23:59:59Z`).toISOString();
  const document: PolicyInput = {
    ...policy,
    grants:
      remove === null
        ? [...policy.grants, { ...grant, principal: grant.principal.trim(), expiresAt }]
        : policy.grants.filter((_, i) => i !== remove),
  };
  const complete = reason.trim() !== "" && (remove !== null || grant.principal.trim() !== "");
  const title = removed ? m.policy.removing(removed.principal) : m.policy.addGrant;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (complete) send(() => save({ document, reason: reason.trim(), requestId }).then(onClose));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className={css.stack} onSubmit={submit}>
        {remove === null && (
          <>
            <TextField label={m.policy.principal} value={grant.principal} set={(principal) => set({ principal })} />
            <SelectField label={m.policy.role} value={grant.role} options={ROLES} set={(role) => set({ role })} />
            <TextField label={words.project} value={grant.projectId ?? "*"} set={(projectId) => set({ projectId })} />
            <TextField
              label={words.environment}
              value={grant.environmentId ?? "*"}
              set={(environmentId) => set({ environmentId })}
            />
            <label className={css.field}>
              <span>{m.policy.expiresOn}</span>
              <input
                type="date"
                value={day}
                onChange={(event) => {
                  setDay(event.target.value);
                  set({});
                }}
              />
            </label>
          </>
        )}
        <label className={css.field}>
          <span>{m.admin.reason}</span>
          <input required maxLength={1000} value={reason} onChange={(event) => setReason(event.target.value)} />
        </label>
        {(remove !== null || grant.principal.trim() !== "") && (
          <section aria-label={m.admin.effect}>
            <h3>{m.admin.effect}</h3>
            <Preview document={document} />
          </section>
        )}
        <Violations error={error} />
        <div className={css.buttons}>
          <Button back onClick={onClose}>
            {m.admin.cancel}
          </Button>
          <Button
            type="submit"
            kind={remove === null ? "primary" : "danger"}
            refusal={refusal ?? (complete ? null : m.admin.incomplete)}
          >
            {refusal ?? (remove === null ? m.policy.addGrant : m.policy.removeOne)}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
