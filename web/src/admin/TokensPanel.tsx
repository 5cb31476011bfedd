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
import { tokens as words } from "../messages/tokens";
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
    { head: words.name, main: true, text: true, cell: (token) => token.name },
    { head: words.prefix, cell: (token) => token.prefix && <code>{token.prefix}…</code> },
    { head: words.principal, cell: (token) => token.principal },
    {
      head: words.grants,
      text: true,
      cell: (token) => token.grants.map((grant) => `${roleWords(grant.role)} ${scopeWords(grant)}`).join(", "),
    },
    { head: words.created, wide: true, cell: (token) => <Time at={instant(token.createdAt)} /> },
    { head: words.expires, cell: (token) => <Time at={instant(token.expiresAt)} format="full" /> },
    {
      head: words.used,
      wide: true,
      cell: (token) => (token.lastUsedAt === null ? words.never : <Time at={instant(token.lastUsedAt)} />),
    },
    {
      head: words.state,
      cell: (token) => {
        if (token.revokedAt !== null) return words.revoked;
        if (instant(token.expiresAt) < Date.now()) return words.expired;
        return (
          <Button
            label={`${words.revoke} ${token.name}`}
            onClick={() => setRevoking({ token, requestId: `ui-${newId()}` })}
          >
            {words.revoke}…
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
      <PageHead title={words.title} asOf={pages.asOf} refresh={pages.refresh}>
        <Button pressed={all} refusal={everybody.refusal} saidBy={everybody.saidBy} onClick={() => setAll(!all)}>
          {words.everybody}
        </Button>
        <Button kind="primary" refusal={make.refusal} saidBy={make.saidBy} onClick={() => setMaking(true)}>
          {words.create}…
        </Button>
      </PageHead>
      <MayNot of={everybody} />
      <MayNot of={make} />
      <DoneLine topic="tokens" />
      <List
        label={words.title}
        pages={pages}
        columns={columns}
        rowKey={(token) => token.tokenId}
        empty={<p>{words.empty}</p>}
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
          title={`${words.revoke} ${revoking.token.name}`}
          verb={words.revoke}
          reason="required"
          danger
          act={revoke}
          onClose={() => setRevoking(null)}
        >
          <p>{words.revokeMeans}</p>
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
        setSecret(createToken.secret ?? words.shownBefore);
      }),
    );
  };
  return (
    // The secret is shown once, so Esc does not close the dialog: the person confirms that it is kept.
    <Dialog title={words.create} onClose={secret === null ? onClose : () => {}}>
      {secret !== null ? (
        <div className={css.stack}>
          <p role="status">{words.once}</p>
          <code className={css.secret}>{secret}</code>
          <div className={css.buttons}>
            <Button ref={focus} onClick={() => void navigator.clipboard.writeText(secret).then(() => setCopied(true))}>
              {copied ? m.page.copied : words.copy}
            </Button>
            <Button kind="primary" onClick={onClose}>
              {words.done}
            </Button>
          </div>
        </div>
      ) : (
        <form ref={fields} className={css.stack} onSubmit={submit}>
          <label className={css.field}>
            <span>{words.name}</span>
            <input name="name" required maxLength={100} {...wrongProps(`${id}name`, wrong("name"))} />
            <Wrong id={`${id}name`} text={wrong("name")} />
          </label>
          <div className={css.row}>
            <label className={css.field}>
              <span>{words.role}</span>
              <select name="role" defaultValue="VIEWER">
                {ROLES.map((role) => (
                  <option key={role} value={role}>
                    {m.role[role]}
                  </option>
                ))}
              </select>
            </label>
            <label className={css.field}>
              <span>{words.project}</span>
              <input name="project" defaultValue="*" maxLength={128} {...wrongProps(`${id}grants`, wrong("grants"))} />
              <Wrong id={`${id}grants`} text={wrong("grants")} />
            </label>
            <label className={css.field}>
              <span>{words.environment}</span>
              <input name="environment" defaultValue="*" maxLength={128} />
            </label>
          </div>
          <label className={css.field}>
            <span>{words.service}</span>
            <input name="service" maxLength={128} {...wrongProps(`${id}service`, wrong("service"))} />
            <Wrong id={`${id}service`} text={wrong("service")} />
          </label>
          <label className={css.field}>
            <span>{words.until}</span>
            <input name="expires" type="date" {...wrongProps(`${id}expires`, wrong("expiresAt"))} />
            <Wrong id={`${id}expires`} text={wrong("expiresAt")} />
          </label>
          <Violations error={error} />
          <div className={css.buttons}>
            <Button back onClick={onClose}>
              {m.confirm.back}
            </Button>
            <Button type="submit" kind="primary" refusal={refusal}>
              {refusal ?? words.create}
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
