import { useEffect, useState } from "react";
import { m } from "../messages";
import { explorer as explorerWords } from "../messages/explorer";
import form from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { Skeleton } from "../ui/Page";
import css from "./Explorer.module.css";
import { findTypes, loadTypes, membersOf, type SchemaType, written } from "./schema";

/** The types and fields of the schema with their descriptions. */
export function SchemaDocs() {
  const [types, setTypes] = useState<readonly SchemaType[] | null>(null);
  const [failed, setFailed] = useState(false);
  const [text, setText] = useState("");
  const [name, setName] = useState<string | null>(null);
  useEffect(() => {
    loadTypes().then(setTypes, () => setFailed(true));
  }, []);
  const shown = types?.find((type) => type.name === name);
  const found = findTypes(types ?? [], text);
  return (
    <section className={css.docs} aria-label={explorerWords.docs}>
      <h2>{explorerWords.docs}</h2>
      {failed && <p role="alert">{explorerWords.docsFailed}</p>}
      {!failed && types === null && <Skeleton rows={6} label={m.sync.LOADING} />}
      {types !== null && !shown && (
        <>
          <label className={form.field}>
            <span>{explorerWords.find}</span>
            <input type="search" value={text} onChange={(event) => setText(event.target.value)} />
          </label>
          <p className={css.quiet} role="status">
            {found.length === 0 ? explorerWords.noType : explorerWords.types(found.length)}
          </p>
          <ul>
            {found.map((type) => (
              <li key={type.name}>
                <TypeLink name={type.name} open={setName} />
              </li>
            ))}
          </ul>
        </>
      )}
      {shown && (
        <>
          <Button kind="quiet" onClick={() => setName(null)}>
            {explorerWords.back}
          </Button>
          <h3 id={`type-${shown.name}`}>{shown.name}</h3>
          {shown.description && <p>{shown.description}</p>}
          <dl aria-labelledby={`type-${shown.name}`}>
            {membersOf(shown).map((member) => (
              <div key={member.name} className={css.member}>
                <dt>
                  <code>{member.name}</code>
                  {member.type && (
                    <code>
                      : <TypeLink name={written(member.type).name} text={written(member.type).text} open={setName} />
                    </code>
                  )}
                </dt>
                <dd>
                  {member.args?.map((arg) => (
                    <p key={arg.name}>
                      <code>
                        {arg.name}:{" "}
                        {arg.type && (
                          <TypeLink name={written(arg.type).name} text={written(arg.type).text} open={setName} />
                        )}
                      </code>{" "}
                      {arg.description}
                    </p>
                  ))}
                  {member.description && <p>{member.description}</p>}
                  {member.deprecationReason && <p>{explorerWords.deprecated(member.deprecationReason)}</p>}
                </dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </section>
  );
}

function TypeLink({ name, text = name, open }: { name: string; text?: string; open: (name: string) => void }) {
  return (
    <button type="button" className={css.type} onClick={() => open(name)}>
      {text}
    </button>
  );
}
