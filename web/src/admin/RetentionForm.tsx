import type { RetentionDaysInput } from "../api/gen/graphql";
import { retention as words } from "../messages/retention";
import css from "../styles/Form.module.css";
import type { DocumentForm } from "./EditDocument";
import { NumberField, Rows, TextField } from "./Rows";

const LINES = Object.keys(words.lines) as (keyof typeof words.lines)[];

/** The days of a policy. The server checks the document. */
export function RetentionForm({ document, change }: Parameters<DocumentForm>[0]) {
  const policy = document as RetentionDaysInput;
  const set = (part: Partial<RetentionDaysInput>): void => change({ ...policy, ...part });
  return (
    <>
      <fieldset className={css.group}>
        <legend>{words.title}</legend>
        <div className={css.row}>
          {LINES.map((line) => (
            <NumberField
              key={line}
              label={words.lines[line]}
              value={policy[line] ?? null}
              set={(days) => set({ [line]: days })}
            />
          ))}
        </div>
        <p className={css.hint}>{words.ofInstallation}</p>
      </fieldset>
      <Rows
        head={words.artifactsHead}
        rows={policy.artifacts ?? []}
        rowName={({ kind }) => kind}
        what={words.artifact}
        fresh={{ kind: "", days: 0 }}
        change={(artifacts) => set({ artifacts })}
      >
        {(artifact, setRow) => (
          <>
            <TextField label={words.kind} value={artifact.kind} set={(kind) => setRow({ kind })} />
            <NumberField label={words.daysField} value={artifact.days} set={(days) => setRow({ days: days ?? 0 })} />
          </>
        )}
      </Rows>
    </>
  );
}
