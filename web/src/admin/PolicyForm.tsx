import type { PolicyInput } from "../api/gen/graphql";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import type { DocumentForm } from "./EditDocument";
import { NumberField, Rows, SelectField, TextField } from "./Rows";
import { roleWords, scopeWords } from "./scope";

const ROLES = Object.entries(m.role);

/** A role of a later version of dvt stays unchanged. */
function roleOptions(role: string): [string, string][] {
  return ROLES.some(([known]) => known === role) ? ROLES : [...ROLES, [role, roleWords(role)]];
}

interface Scoped {
  projectId?: string;
  environmentId?: string;
}

function ScopeFields({ row, set }: { row: Scoped; set: (change: Scoped) => void }) {
  return (
    <>
      <TextField label={m.policy.project} value={row.projectId ?? "*"} set={(projectId) => set({ projectId })} />
      <TextField
        label={m.policy.environment}
        value={row.environmentId ?? "*"}
        set={(environmentId) => set({ environmentId })}
      />
    </>
  );
}

/** Grants, approvals, break-glass and separation of duties of a policy. The server checks the document. */
export const PolicyForm: DocumentForm = ({ document, change }) => {
  const policy = document as PolicyInput;
  const set = (part: Partial<PolicyInput>): void => change({ ...policy, ...part });
  const { sod = {}, approvals = [], breakGlass = [] } = policy;
  return (
    <>
      <Rows
        head={m.policy.grants}
        rows={policy.grants}
        rowName={(grant) => m.policy.grantOf(grant.principal)}
        what={m.policy.grant}
        fresh={{ principal: "", role: "VIEWER", projectId: "*", environmentId: "*" }}
        change={(grants) => set({ grants })}
      >
        {(grant, setRow) => (
          <>
            <TextField label={m.policy.principal} value={grant.principal} set={(principal) => setRow({ principal })} />
            <SelectField
              label={m.policy.role}
              value={grant.role}
              options={roleOptions(grant.role)}
              set={(role) => setRow({ role })}
            />
            <ScopeFields row={grant} set={setRow} />
            <TextField
              label={m.policy.expires}
              placeholder={m.policy.expiresHint}
              value={grant.expiresAt ?? ""}
              set={(at) => setRow({ expiresAt: at === "" ? null : at })}
            />
          </>
        )}
      </Rows>
      <Rows
        head={m.policy.approvalsHead}
        rows={approvals}
        rowName={({ projectId = "*", environmentId = "*" }) =>
          m.policy.approvalOf(scopeWords({ projectId, environmentId }))
        }
        what={m.policy.approval}
        fresh={{ projectId: "*", environmentId: "prod", required: 1 }}
        change={(rows) => set({ approvals: rows })}
      >
        {(approval, setRow) => (
          <>
            <ScopeFields row={approval} set={setRow} />
            <NumberField
              label={m.policy.required}
              min={1}
              value={approval.required}
              set={(required) => setRow({ required: required ?? 0 })}
            />
          </>
        )}
      </Rows>
      <Rows
        head={m.policy.breakGlassHead}
        rows={breakGlass}
        rowName={(entry) => m.policy.breakGlassOf(entry.principal)}
        what={m.policy.breakGlassEntry}
        fresh={{ principal: "", role: "ADMIN", maxMinutes: 30 }}
        change={(rows) => set({ breakGlass: rows })}
      >
        {(entry, setRow) => (
          <>
            <TextField label={m.policy.principal} value={entry.principal} set={(principal) => setRow({ principal })} />
            <SelectField
              label={m.policy.role}
              value={entry.role}
              options={roleOptions(entry.role)}
              set={(role) => setRow({ role })}
            />
            <NumberField
              label={m.policy.minutes}
              min={1}
              value={entry.maxMinutes}
              set={(maxMinutes) => setRow({ maxMinutes: maxMinutes ?? 0 })}
            />
          </>
        )}
      </Rows>
      <fieldset className={css.group}>
        <legend>{m.policy.dutiesHead}</legend>
        {(["approve", "completeManual", "completeManualInEveryPlan"] as const).map((field) => (
          <label key={field} className={css.check}>
            <input
              type="checkbox"
              checked={sod[field] ?? field !== "completeManualInEveryPlan"}
              onChange={(event) => set({ sod: { ...sod, [field]: event.target.checked } })}
            />{" "}
            {m.policy.sodFields[field]}
          </label>
        ))}
      </fieldset>
      <p className={css.hint}>{m.policy.inJson}</p>
    </>
  );
};
