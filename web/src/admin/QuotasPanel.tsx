import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { type May, MayNot, useMay } from "../session/MayNot";
import { useCan } from "../session/useCan";
import {
  PreviewQuotaDocument,
  QuotaHistoryDocument,
  type QuotaLimitsInput,
  QuotasDocument,
  type QuotaFieldsFragment,
  QuotaSettingsDocument,
  type QuotaSettingsInput,
  type QuotasQuery,
  SetQuotaDocument,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { quota as words } from "../messages/quota";
import { Button } from "../ui/Button";
import css from "../styles/Form.module.css";
import { count } from "../format/format";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";
import { type DocumentForm, type DocumentPreview, EditDocument, InWords } from "./EditDocument";
import { QuotasForm } from "./QuotasForm";
import { Versions } from "./Versions";

type Snapshot = QuotasQuery["quotas"][number];
interface Line {
  place: string;
  bucket: Snapshot["buckets"][number];
}

const buckets: Column<Line>[] = [
  { head: words.place, main: true, cell: ({ place, bucket }) => `${place} · ${words.actions[bucket.action]}` },
  {
    head: words.used,
    cell: ({ place, bucket }) => (
      <span>
        <meter
          className={css.meter}
          aria-label={`${place} ${words.actions[bucket.action]}`}
          min={0}
          max={100}
          value={bucket.usedPercent}
        />{" "}
        {Math.round(bucket.usedPercent)} %
      </span>
    ),
  },
  { head: words.left, cell: ({ bucket }) => words.of(count(bucket.tokensRemaining), count(bucket.perMinute)) },
  {
    head: words.next,
    cell: ({ bucket }) => bucket.nextRefillAt && <Time at={instant(bucket.nextRefillAt)} format="clock" />,
  },
];
const places: Column<Snapshot>[] = [
  { head: words.place, main: true, cell: (snapshot) => snapshot.projectId ?? words.tenant },
  { head: words.active, cell: ({ active, maxActive }) => <Use of={active} most={maxActive} /> },
  {
    head: words.waiting,
    cell: ({ queueDepth, maxQueueDepth }) =>
      queueDepth > 0 ? (
        <Link to="/queue">
          <Use of={queueDepth} most={maxQueueDepth} />
        </Link>
      ) : (
        words.of(count(queueDepth), count(maxQueueDepth))
      ),
  },
];

/** How much of a limit is in use; a limit that is reached holds runs up, so it stands out. */
function Use({ of, most }: { of: number; most: number }) {
  const text = words.of(count(of), count(most));
  if (of < most) return text;
  return (
    <span className={css.tone} data-tone="warn">
      {text}, {words.full}
    </span>
  );
}

/** The settings to edit: those in force, or an old version that is put back over them. */
interface Editing {
  base: QuotaFieldsFragment;
  old?: QuotaFieldsFragment;
}

/** The settings in the form of setQuota. */
function content({ tenant, projects, strategy, ttlMs }: QuotaFieldsFragment): unknown {
  return { tenant, projects, strategy, ttlMs };
}

const TYPING_MS = 300;

function QuotaPreview({ document }: Parameters<DocumentPreview>[0]) {
  const { last, error } = useQuery(
    PreviewQuotaDocument,
    { settings: document as QuotaSettingsInput },
    (result) => result.preview,
    { after: TYPING_MS },
  );
  return <InWords changed={last?.changed ?? []} warnings={error ? [] : (last?.warnings ?? [])} error={error} />;
}

interface HistoryProps {
  current: number;
  may: May;
  putBack: (old: QuotaFieldsFragment) => void;
}

/** The versions of the settings, for those who may read them. */
function History({ current, may, putBack }: HistoryProps) {
  const pages = useConnection(QuotaHistoryDocument, {}, (result) => result.quotaHistory, { size: 20 });
  return (
    <Versions
      pages={pages}
      current={current}
      content={content}
      refusal={may.refusal}
      saidBy={may.saidBy}
      putBack={putBack}
      none={words.noHistory}
    />
  );
}

export function QuotasPanel() {
  const quotas = useQuery(QuotasDocument, {}, (result) => result.quotas);
  // Without the right to read the settings the page shows the use of the limits, and asks for no more.
  const mayRead = useCan("READ_POLICY") === null;
  const settings = useQuery(QuotaSettingsDocument, mayRead ? {} : null, (result) => result.quotaSettings);
  const [editing, setEditing] = useState<Editing | null>(null);
  const may = useMay("SET_QUOTA");
  const most = JSON.stringify(settings.answer?.tierLimits ?? null);
  // Keep the component while the limits are equal: a new one would remount the form and lose the focus.
  const form = useMemo<DocumentForm>(
    () => (props) => <QuotasForm {...props} most={JSON.parse(most) as QuotaLimitsInput | null} />,
    [most],
  );
  const refresh = (): void => {
    quotas.again();
    settings.again();
  };
  const lines = quotas.answer?.flatMap((snapshot) =>
    snapshot.buckets.map((bucket) => ({ place: snapshot.projectId ?? words.tenant, bucket })),
  );
  return (
    <>
      <PageHead title={words.title} asOf={quotas.asOf} refresh={refresh}>
        <Button
          refusal={may.refusal ?? (settings.answer ? null : words.notYours)}
          saidBy={may.saidBy}
          onClick={() => setEditing(settings.answer ? { base: settings.answer } : null)}
        >
          {m.admin.edit}…
        </Button>
      </PageHead>
      {may.refusal !== null && (
        <div className={css.row}>
          <MayNot of={may} />
        </div>
      )}
      <DoneLine topic="quotas" />
      {settings.answer && (
        <p className={`${css.row} ${css.hint}`}>{words.tier(settings.answer.tier, settings.answer.version)}</p>
      )}
      {quotas.error !== null && <Problem error={quotas.error} retry={refresh} />}
      {!lines && quotas.error === null && <Skeleton rows={6} label={m.sync.LOADING} />}
      {lines && quotas.answer && (
        <>
          <section className={css.section}>
            <h2>{words.buckets}</h2>
            <Table
              label={words.buckets}
              columns={buckets}
              rows={lines}
              rowKey={(line) => `${line.place} ${line.bucket.action}`}
            />
          </section>
          <section className={css.section}>
            <h2>{words.places}</h2>
            <Table
              label={words.places}
              columns={places}
              rows={quotas.answer}
              rowKey={(snapshot) => snapshot.projectId ?? ""}
            />
          </section>
        </>
      )}
      {settings.answer && (
        <History
          key={settings.answer.version}
          current={settings.answer.version}
          may={may}
          putBack={(old) => setEditing(settings.answer ? { base: settings.answer, old } : null)}
        />
      )}
      {editing && (
        <EditDocument
          title={editing.old ? m.policy.putBackOne(editing.old.version) : words.editing(editing.base.version)}
          before={content(editing.base)}
          {...(editing.old
            ? { draft: content(editing.old), draftReason: m.policy.putBackReason(editing.old.version) }
            : {})}
          form={form}
          preview={QuotaPreview}
          save={async ({ document, reason, requestId }) => {
            // The server checks the document and lists its violations.
            const { setQuota } = await request(SetQuotaDocument, {
              input: {
                requestId,
                expectedVersion: editing.base.version,
                reason,
                settings: document as QuotaSettingsInput,
              },
            });
            recordDone({
              topic: "quotas",
              what: m.receipt.quotasSaved,
              effect: { page: "quotas" },
              change: setQuota.change,
            });
            refresh();
          }}
          onClose={() => setEditing(null)}
        />
      )}
    </>
  );
}
