import { type FormEvent, useId, useRef, useState } from "react";
import { newId } from "../api/newId";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { MayNot, useMay } from "../session/MayNot";
import {
  CreateTokenDocument,
  RevokeTokenDocument,
  type Role,
  type TokenFieldsFragment,
  TokensDocument,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { m } from "../messages";
import { ReasonDialog } from "../forms/ReasonDialog";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import css from "../styles/Form.module.css";
import { List, PageHead } from "../page/List";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";
import { useSending } from "../forms/useSending";
import { roleWords, scopeWords } from "./scope";
import { useFirstWrong, Violations, Wrong, wrongProps, wrongWith } from "../forms/Violations";

const ROLES = [
  "VIEWER",
  "OPERATOR",
  "ENGINEER",
  "ADMIN",
  "PLANNER",
  "SYSTEM",
  "SRE",
] as const satisfies readonly Role[];

export function TokensPanel() {
  const [all, setAll] = useState(false);
  const pages = useConnection(TokensDocument, { all, live: false }, (result) => result.tokens);
  const [revoking, setRevoking] = useState<{ token: TokenFieldsFragment; requestId: string } | null>(null);
  const [making, setMaking] = useState(false);
  const everybody = useMay("MANAGE_TOKENS");
  const make = useMay("CREATE_TOKEN");
  const columns: Column<TokenFieldsFragment>[] = [
    { head: m.tokens.name, main: true, text: true, cell: (token) => token.name },
    { head: m.tokens.prefix, cell: (token) => token.prefix && <code>{token.prefix}…</code> },
    { head: m.tokens.principal, cell: (token) => token.principal },
    {
      head: m.tokens.grants,
      text: true,
      cell: (token) => token.grants.map((grant) => `${roleWords(grant.role)} ${scopeWords(grant)}`).join(", "),
    },
    { head: m.tokens.created, wide: true, cell: (token) => <Time at={instant(token.createdAt)} /> },
    { head: m.tokens.expires, cell: (token) => <Time at={instant(token.expiresAt)} format="full" /> },
    {
      head: m.tokens.used,
      wide: true,
      cell: (token) => (token.lastUsedAt === null ? m.tokens.never : <Time at={instant(token.lastUsedAt)} />),
    },
    {
      head: m.tokens.state,
      cell: (token) => {
        if (token.revokedAt !== null) return m.tokens.revoked;
        if (instant(token.expiresAt) < Date.now()) return m.tokens.expired;
        return (
          <Button
            label={`${m.tokens.revoke} ${token.name}`}
            onClick={() => setRevoking({ token, requestId: `ui-${newId()}` })}
          >
            {m.tokens.revoke}…
          </Button>
        );
      },
    },
  ];
  const revoke = async (reason: string): Promise<void> => {
    if (!revoking) return;
    const { revokeToken } = await request(RevokeTokenDocument, {
      input: { tokenId: revoking.token.tokenId, requestId: revoking.requestId, reason },
    });
    recordDone({
      topic: "tokens",
      what: m.receipt.tokenRevoked(revoking.token.name),
      effect: { page: "tokens" },
      change: revokeToken.change,
    });
    pages.refresh();
  };
  return (
    <>
      <PageHead title={m.tokens.title} asOf={pages.asOf} refresh={pages.refresh}>
        <Button pressed={all} refusal={everybody.refusal} saidBy={everybody.saidBy} onClick={() => setAll(!all)}>
          {m.tokens.everybody}
        </Button>
        <Button kind="primary" refusal={make.refusal} saidBy={make.saidBy} onClick={() => setMaking(true)}>
          {m.tokens.create}…
        </Button>
      </PageHead>
      <MayNot of={everybody} />
      <MayNot of={make} />
      <DoneLine topic="tokens" />
      <List
        label={m.tokens.title}
        pages={pages}
        columns={columns}
        rowKey={(token) => token.tokenId}
        empty={<p>{m.tokens.empty}</p>}
      />
      {making && (
        <Make
          onClose={() => {
            setMaking(false);
            pages.refresh();
          }}
        />
      )}
      {revoking && (
        <ReasonDialog
          title={`${m.tokens.revoke} ${revoking.token.name}`}
          verb={m.tokens.revoke}
          reason="required"
          danger
          act={revoke}
          onClose={() => setRevoking(null)}
        >
          <p>{m.tokens.revokeMeans}</p>
        </ReasonDialog>
      )}
    </>
  );
}

/** Takes the focus, because the field that had it is gone once the token is made. */
function focus(button: HTMLButtonElement | null): void {
  button?.focus();
}

function Make({ onClose }: { onClose: () => void }) {
  const [requestId] = useState(() => `ui-${newId()}`);
  const [secret, setSecret] = useState<string | null>(null);
  const [copied, setCopied] = useState(false);
  const { error, refusal, send } = useSending();
  const fields = useRef<HTMLFormElement>(null);
  const id = useId();
  const wrong = (path: string): string | null => wrongWith(error?.violations ?? [], path);
  useFirstWrong(fields, error);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const word = (name: string): string => String(form.get(name) ?? "").trim();
    const role = ROLES.find((known) => known === word("role")) ?? "VIEWER";
    const input = {
      requestId,
      name: word("name"),
      service: word("service") === "" ? null : word("service"),
      grants: [{ role, projectId: word("project") || "*", environmentId: word("environment") || "*" }],
      expiresAt: word("expires") === "" ? null : new Date(word("expires")).toISOString(),
    };
    send(() =>
      request(CreateTokenDocument, { input }).then(({ createToken }) => {
        recordDone({
          topic: "tokens",
          what: m.receipt.tokenCreated(createToken.token.name),
          effect: { page: "tokens" },
          change: createToken.change,
        });
        setSecret(createToken.secret ?? m.tokens.shownBefore);
      }),
    );
  };
  return (
    // The secret is shown once, so Esc does not close the dialog: the person confirms that it is kept.
    <Dialog title={m.tokens.create} onClose={secret === null ? onClose : () => {}}>
      {secret !== null ? (
        <div className={css.stack}>
          <p role="status">{m.tokens.once}</p>
          <code className={css.secret}>{secret}</code>
          <div className={css.buttons}>
            <Button ref={focus} onClick={() => void navigator.clipboard.writeText(secret).then(() => setCopied(true))}>
              {copied ? m.page.copied : m.tokens.copy}
            </Button>
            <Button kind="primary" onClick={onClose}>
              {m.tokens.done}
            </Button>
          </div>
        </div>
      ) : (
        <form ref={fields} className={css.stack} onSubmit={submit}>
          <label className={css.field}>
            <span>{m.tokens.name}</span>
            <input name="name" required maxLength={100} {...wrongProps(`${id}name`, wrong("name"))} />
            <Wrong id={`${id}name`} text={wrong("name")} />
          </label>
          <div className={css.row}>
            <label className={css.field}>
              <span>{m.tokens.role}</span>
              <select name="role" defaultValue="VIEWER">
                {ROLES.map((role) => (
                  <option key={role} value={role}>
                    {m.role[role]}
                  </option>
                ))}
              </select>
            </label>
            <label className={css.field}>
              <span>{m.tokens.project}</span>
              <input name="project" defaultValue="*" maxLength={128} {...wrongProps(`${id}grants`, wrong("grants"))} />
              <Wrong id={`${id}grants`} text={wrong("grants")} />
            </label>
            <label className={css.field}>
              <span>{m.tokens.environment}</span>
              <input name="environment" defaultValue="*" maxLength={128} />
            </label>
          </div>
          <label className={css.field}>
            <span>{m.tokens.service}</span>
            <input name="service" maxLength={128} {...wrongProps(`${id}service`, wrong("service"))} />
            <Wrong id={`${id}service`} text={wrong("service")} />
          </label>
          <label className={css.field}>
            <span>{m.tokens.until}</span>
            <input name="expires" type="date" {...wrongProps(`${id}expires`, wrong("expiresAt"))} />
            <Wrong id={`${id}expires`} text={wrong("expiresAt")} />
          </label>
          <Violations error={error} />
          <div className={css.buttons}>
            <Button back onClick={onClose}>
              {m.confirm.back}
            </Button>
            <Button type="submit" kind="primary" refusal={refusal}>
              {refusal ?? m.tokens.create}
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
