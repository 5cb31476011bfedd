import { useState } from "react";
import {
  PreviewRetentionDocument,
  type RetentionDaysInput,
  RetentionDocument,
  type RetentionFieldsFragment,
  RetentionHistoryDocument,
  type RetentionQuery,
  SetRetentionDocument,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { useQuery } from "../api/useQuery";
import { count } from "../format/format";
import { m } from "../messages";
import { retention as words } from "../messages/retention";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { MayNot, useMay } from "../session/MayNot";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";
import { type DocumentPreview, EditDocument, InWords } from "./EditDocument";
import { Holds } from "./Holds";
import { RetentionForm } from "./RetentionForm";
import { Versions } from "./Versions";

type Days = RetentionFieldsFragment["days"];
type Pass = NonNullable<RetentionQuery["retentionPolicy"]["lastPass"]>;

interface Line {
  what: string;
  value: string;
}

const columns = (head: string): Column<Line>[] => [
  { head: words.what, main: true, cell: ({ what }) => what },
  { head, cell: ({ value }) => value },
];

const LINES = Object.keys(words.lines) as (keyof typeof words.lines)[];
const COUNTS = Object.keys(words.counts) as (keyof typeof words.counts)[];

function linesOf(days: Days): Line[] {
  return [
    ...LINES.map((line) => ({ what: words.lines[line], value: words.days(days[line]) })),
    ...days.artifacts.map(({ kind, days: n }) => ({ what: words.artifacts(kind), value: words.days(n) })),
    ...(days.artifacts.length === 0 ? [{ what: words.artifactsHead, value: words.days(0) }] : []),
  ];
}

/** Whether the policy deletes and archives nothing. */
function keepsAll(days: Days): boolean {
  return LINES.every((line) => days[line] === 0) && days.artifacts.every(({ days: n }) => n === 0);
}

/** The settings to edit: those in force, or an old version that is put back over them. */
interface Editing {
  base: RetentionFieldsFragment;
  old?: RetentionFieldsFragment;
}

/** The policy in the form of setRetention. */
function content({ own }: RetentionFieldsFragment): unknown {
  return own;
}

const TYPING_MS = 300;

function RetentionPreview({ document }: Parameters<DocumentPreview>[0]) {
  const { last, error } = useQuery(
    PreviewRetentionDocument,
    { policy: document as RetentionDaysInput },
    (result) => result.preview,
    { after: TYPING_MS },
  );
  return <InWords changed={last?.changed ?? []} warnings={error ? [] : (last?.warnings ?? [])} error={error} />;
}

function LastPass({ pass }: { pass: Pass | null }) {
  return (
    <section className={css.section}>
      <h2>{words.pass}</h2>
      {pass === null ? (
        <p>{words.noPass}</p>
      ) : (
        <>
          <p className={css.hint}>
            {pass.endedAt === null ? words.running : words.ended}{" "}
            <Time at={instant(pass.endedAt ?? pass.startedAt)} format="full" />
          </p>
          <Table
            label={words.pass}
            columns={columns(words.number)}
            rows={COUNTS.map((name) => ({ what: words.counts[name], value: count(pass[name]) }))}
            rowKey={({ what }) => what}
          />
          {pass.overdueSince !== null && (
            <p role="status">
              {words.late} <Time at={instant(pass.overdueSince)} format="full" />. {words.lateMeans}
            </p>
          )}
          {pass.error !== null && <p>{words.firstFailure(pass.error)}</p>}
        </>
      )}
    </section>
  );
}

export function RetentionPanel() {
  const policy = useQuery(RetentionDocument, {}, (result) => result.retentionPolicy);
  const history = useConnection(RetentionHistoryDocument, {}, (result) => result.retentionHistory, { size: 20 });
  const [editing, setEditing] = useState<Editing | null>(null);
  const may = useMay("SET_POLICY");
  const refresh = (): void => {
    policy.again();
    history.refresh();
  };
  const now = policy.answer;
  return (
    <>
      <PageHead title={words.title} asOf={policy.asOf} refresh={refresh}>
        <Button
          refusal={may.refusal ?? (now ? null : m.sync.LOADING)}
          saidBy={may.saidBy}
          onClick={() => setEditing(now ? { base: now } : null)}
        >
          {m.admin.edit}…
        </Button>
      </PageHead>
      <MayNot of={may} />
      <DoneLine topic="retention" />
      {policy.error !== null && <Problem error={policy.error} retry={refresh} />}
      {!now && policy.error === null && <Skeleton rows={6} label={m.sync.LOADING} />}
      {now && (
        <section className={css.section}>
          <p className={css.hint}>{words.intro(now.version)}</p>
          {keepsAll(now.days) ? (
            <p>{words.allForEver}</p>
          ) : (
            <Table
              label={words.title}
              columns={columns(words.kept)}
              rows={linesOf(now.days)}
              rowKey={({ what }) => what}
            />
          )}
        </section>
      )}
      {now && <LastPass pass={now.lastPass} />}
      <Holds />
      {now && (
        <Versions
          pages={history}
          current={now.version}
          content={content}
          refusal={may.refusal}
          saidBy={may.saidBy}
          putBack={(old) => setEditing({ base: now, old })}
          none={words.noHistory}
        />
      )}
      {editing && (
        <EditDocument
          title={editing.old ? m.policy.putBackOne(editing.old.version) : words.editing(editing.base.version)}
          before={content(editing.base)}
          {...(editing.old
            ? { draft: content(editing.old), draftReason: m.policy.putBackReason(editing.old.version) }
            : {})}
          form={RetentionForm}
          preview={RetentionPreview}
          save={async ({ document, reason, requestId }) => {
            // The server checks the document and lists its violations.
            const { setRetention } = await request(SetRetentionDocument, {
              input: {
                requestId,
                expectedVersion: editing.base.version,
                reason,
                policy: document as RetentionDaysInput,
              },
            });
            recordDone({
              topic: "retention",
              what: words.saved,
              effect: { page: "retention" },
              change: setRetention.change,
            });
            refresh();
          }}
          onClose={() => setEditing(null)}
        />
      )}
    </>
  );
}
