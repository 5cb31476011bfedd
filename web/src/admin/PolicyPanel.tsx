import { useState } from "react";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { MayNot, useMay } from "../session/MayNot";
import {
  type PolicyFieldsFragment,
  type PolicyInput,
  PolicyDocument,
  PolicyHistoryDocument,
  PreviewPolicyDocument,
  SetPolicyDocument,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { useConnection } from "../api/useConnection";
import { m } from "../messages";
import { Button } from "../ui/Button";
import css from "../styles/Form.module.css";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";
import { type DocumentPreview, EditDocument, InWords } from "./EditDocument";
import { GrantDialog } from "./GrantDialog";
import { PolicyForm } from "./PolicyForm";
import { actionWords, ceilingWords, roleWords, scopeWords } from "./scope";
import { Versions } from "./Versions";
import { WhoCan } from "./WhoCan";

/** The document to edit: the one in force, or an old version that is put back over it. */
interface Editing {
  base: PolicyFieldsFragment;
  old?: PolicyFieldsFragment;
}

const grants: Column<PolicyFieldsFragment["grants"][number]>[] = [
  { head: m.policy.principal, main: true, cell: (grant) => grant.principal },
  {
    head: m.policy.role,
    cell: (grant) => `${roleWords(grant.role)}${grant.breakGlass ? ` (${m.policy.breakGlassGrant})` : ""}`,
  },
  { head: m.policy.where, cell: (grant) => scopeWords(grant) },
  {
    head: m.policy.until,
    cell: (grant) =>
      grant.expiresAt && (
        <>
          {isOver(grant, Date.now()) && m.policy.over} <Time at={instant(grant.expiresAt)} format="full" />
        </>
      ),
  },
];
const rules: Column<PolicyFieldsFragment["rules"][number]>[] = [
  { head: m.policy.role, main: true, cell: (rule) => roleWords(rule.role) },
  { head: m.policy.action, cell: (rule) => actionWords(rule.action) },
  { head: m.policy.where, cell: (rule) => scopeWords(rule) },
];
type Grant = PolicyFieldsFragment["grants"][number];

/** An expired grant gives nothing any more. It stays in the document until the next change. */
export function isOver({ expiresAt }: Grant, now: number): boolean {
  return expiresAt !== null && instant(expiresAt) <= now;
}

/** Roles by break-glass first, because they should end soon; then by person, and what is over last. */
export function byPrincipal(now: number): (a: Grant, b: Grant) => number {
  return (a, b) =>
    Number(isOver(a, now)) - Number(isOver(b, now)) ||
    Number(b.breakGlass) - Number(a.breakGlass) ||
    a.principal.localeCompare(b.principal, "en", { numeric: true });
}

/** The policy in the form of setPolicy. */
function input(policy: PolicyFieldsFragment): PolicyInput {
  return {
    ...(policy.defaultRules ? {} : { rules: policy.rules }),
    grants: policy.grants.map(({ principal, role, projectId, environmentId, expiresAt, breakGlass }) => ({
      principal,
      role,
      projectId,
      environmentId,
      expiresAt,
      breakGlass,
    })),
    sod: policy.sod,
    approvals: policy.approvals,
    breakGlass: policy.breakGlass,
    sandbox: policy.sandbox,
  };
}

/** An old version as it is put back: roles that people hold by break-glass stay as they are now. */
export function putBackInput(old: PolicyFieldsFragment, now: PolicyFieldsFragment): PolicyInput {
  const lasting = input(old).grants.filter((grant) => grant.breakGlass !== true);
  return { ...input(old), grants: [...lasting, ...input(now).grants.filter((grant) => grant.breakGlass === true)] };
}

const TYPING_MS = 300;

function PolicyPreview({ document }: Parameters<DocumentPreview>[0]) {
  // The server checks the document; its refusal is shown as the reason for a missing preview.
  const { last, error } = useQuery(PreviewPolicyDocument, { document: document as PolicyInput }, (r) => r.preview, {
    after: TYPING_MS,
  });
  return <InWords changed={last?.changed ?? []} warnings={error ? [] : (last?.warnings ?? [])} error={error} />;
}

function PolicyWarnings({ document }: { document: PolicyInput }) {
  const { answer } = useQuery(PreviewPolicyDocument, { document }, (r) => r.preview.warnings);
  return <InWords changed={[]} warnings={answer ?? []} error={null} />;
}

export function PolicyPanel() {
  const policy = useQuery(PolicyDocument, {}, (result) => result.policy);
  const history = useConnection(PolicyHistoryDocument, {}, (result) => result.policyHistory, { size: 20 });
  const [editing, setEditing] = useState<Editing | null>(null);
  // The policy that the dialog of a grant was opened with, so that a change by somebody else meanwhile is refused.
  const [granting, setGranting] = useState<{ policy: PolicyFieldsFragment; remove: number | null } | null>(null);
  const may = useMay("SET_POLICY");
  const now = policy.answer;
  const refresh = (): void => {
    policy.again();
    history.refresh();
  };
  const save =
    (base: PolicyFieldsFragment) =>
    async ({
      document,
      reason,
      requestId,
    }: {
      document: unknown;
      reason: string;
      requestId: string;
    }): Promise<void> => {
      // The server checks the document and lists its violations.
      const { setPolicy } = await request(SetPolicyDocument, {
        input: { requestId, expectedVersion: base.version, reason, document: document as PolicyInput },
      });
      recordDone({
        topic: "policy",
        what: m.receipt.policySaved,
        effect: { page: "policy" },
        change: setPolicy.change,
      });
      refresh();
    };
  return (
    <>
      <PageHead title={now ? m.policy.named(now.version) : m.policy.title} asOf={policy.asOf} refresh={refresh}>
        <Button
          refusal={may.refusal ?? (now ? null : m.sync.LOADING)}
          saidBy={may.saidBy}
          onClick={() => setEditing(now ? { base: now } : null)}
        >
          {m.admin.edit}…
        </Button>
      </PageHead>
      <MayNot of={may} />
      <DoneLine topic="policy" />
      {policy.error !== null && <Problem error={policy.error} retry={refresh} />}
      {!now && policy.error === null && <Skeleton rows={8} label={m.sync.LOADING} />}
      {now && (
        <>
          {/* What nobody can fulfil now, such as more approvals than people who can give them. */}
          <PolicyWarnings document={input(now)} />
          <section className={css.section}>
            <h2>{m.policy.duties}</h2>
            <p>{now.sod.approve ? m.policy.sodApprove : m.policy.noSodApprove}</p>
            <p>{now.sod.completeManual ? m.policy.sodComplete : m.policy.noSodComplete}</p>
            {now.sod.completeManual && now.sod.completeManualInEveryPlan ? <p>{m.policy.sodCompleteAlways}</p> : null}
            {now.approvals.map((approval) => (
              <p key={`${approval.projectId} ${approval.environmentId}`}>
                {m.policy.approvals(scopeWords(approval), approval.required)}
              </p>
            ))}
            {now.breakGlass.map((entry) => (
              <p key={`${entry.principal} ${entry.role}`}>
                {m.policy.breakGlass(entry.principal, roleWords(entry.role), entry.maxMinutes)}
              </p>
            ))}
            {now.sandbox.map((ceiling) => (
              <p key={`${ceiling.projectId} ${ceiling.environmentId}`}>
                {m.policy.sandbox(scopeWords(ceiling), ceilingWords(ceiling))}
              </p>
            ))}
          </section>
          <section className={css.section}>
            <h2>{m.policy.grants}</h2>
            <Table
              label={m.policy.grants}
              columns={[
                ...grants,
                {
                  head: m.policy.removeOne,
                  cell: (grant) => (
                    <Button
                      kind="quiet"
                      refusal={may.refusal}
                      saidBy={may.saidBy}
                      label={m.policy.removeGrant(grant.principal, roleWords(grant.role))}
                      onClick={() => setGranting({ policy: now, remove: now.grants.indexOf(grant) })}
                    >
                      {m.policy.removeOne}…
                    </Button>
                  ),
                },
              ]}
              rows={now.grants.toSorted(byPrincipal(Date.now()))}
              rowKey={(grant) => JSON.stringify(grant)}
            />
            <div className={css.row}>
              <Button
                refusal={may.refusal}
                saidBy={may.saidBy}
                onClick={() => setGranting({ policy: now, remove: null })}
              >
                {m.policy.addGrant}…
              </Button>
            </div>
          </section>
          <WhoCan />
          <details className={css.section}>
            <summary>
              {now.defaultRules ? m.policy.defaultRules(now.rules.length) : m.policy.rules(now.rules.length)}
            </summary>
            <Table
              label={m.policy.rules(now.rules.length)}
              columns={rules}
              rows={now.rules}
              rowKey={(rule) => JSON.stringify(rule)}
            />
          </details>
          <Versions
            pages={history}
            current={now.version}
            content={input}
            refusal={may.refusal}
            saidBy={may.saidBy}
            marked={(version) => (version.onlyBreakGlass ? m.policy.byBreakGlass : null)}
            putBack={(old) => setEditing({ base: now, old })}
            none={m.policy.noHistory}
          />
        </>
      )}
      {editing && (
        <EditDocument
          title={editing.old ? m.policy.putBackOne(editing.old.version) : m.policy.editing(editing.base.version)}
          before={input(editing.base)}
          {...(editing.old
            ? {
                draft: putBackInput(editing.old, editing.base),
                draftReason: m.policy.putBackReason(editing.old.version),
              }
            : {})}
          form={PolicyForm}
          preview={PolicyPreview}
          save={save(editing.base)}
          onClose={() => setEditing(null)}
        />
      )}
      {granting && (
        <GrantDialog
          policy={input(granting.policy)}
          remove={granting.remove}
          preview={PolicyPreview}
          save={save(granting.policy)}
          onClose={() => setGranting(null)}
        />
      )}
    </>
  );
}
