// The dialog that saves the present query under a name. Few people open it, so it is loaded then.
import { useState } from "react";
import { useSending } from "../forms/useSending";
import { m } from "../messages";
import form from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { formatQuery, type RunQuery } from "./query";

interface NameViewProps {
  query: RunQuery;
  save: (name: string, query: string, projectId: string | undefined) => Promise<void>;
  close: () => void;
}

export function NameView({ query, save, close }: NameViewProps) {
  const [name, setName] = useState("");
  const [shared, setShared] = useState(false);
  const sending = useSending();
  return (
    <Dialog title={m.runs.saveViewTitle} onClose={close}>
      <form
        className={form.stack}
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim() === "") return;
          sending.send(async () => {
            await save(name.trim(), formatQuery(query), shared ? query.project : undefined);
            close();
          });
        }}
      >
        <p>
          <code>{formatQuery(query)}</code>
        </p>
        <label className={form.field}>
          <span>{m.runs.viewName}</span>
          <input value={name} maxLength={60} required onChange={(event) => setName(event.target.value)} />
        </label>
        {query.project !== undefined && (
          <label>
            <input type="checkbox" checked={shared} onChange={(event) => setShared(event.target.checked)} />{" "}
            {m.runs.shareView(query.project)}
          </label>
        )}
        {sending.error && <p role="alert">{sending.error.message}</p>}
        <div className={form.buttons}>
          <Button back onClick={close}>
            {m.confirm.back}
          </Button>
          <Button kind="primary" type="submit" refusal={sending.refusal}>
            {m.runs.keepView}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
