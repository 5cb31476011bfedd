import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { receipts } from "../receipts/context";
import { newId } from "../api/newId";
import { useCan } from "../session/useCan";
import { CancelRunDocument, QueueDocument, type QueueQuery } from "../api/gen/graphql";
import { instant, toSignal } from "../api/model";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { m } from "../messages";
import { ReasonDialog } from "../forms/ReasonDialog";
import { Button } from "../ui/Button";
import { Where } from "../ui/Env";
import { useDocumentStatus } from "../ui/documentStatus";
import css from "../styles/Form.module.css";
import { count, shortId, ticking } from "../format/format";
import { List, PageHead } from "../page/List";
import type { Column } from "../ui/Table";
import { Time, useTick } from "../ui/Time";
import page from "../styles/Page.module.css";
import { GivenUp } from "../queue/GivenUp";
import { SlotHolders } from "../queue/SlotHolders";
import { endsNeeded, slotsOf } from "../queue/slots";

type Entry = QueueQuery["queue"]["edges"][number]["node"];
const EVERY_MS = 3_000;

export function QueuePage() {
  useDocumentStatus(m.queue.title);
  const pages = useConnection(QueueDocument, {}, ({ queue }) => queue, { every: EVERY_MS });
  const depth = pages.first?.depth ?? null;
  const may = useCan("CANCEL");
  const [wanted, setWanted] = useState<{ entry: Entry; signalId: string } | null>(null);
  useTick(1_000, (pages.rows?.length ?? 0) > 0);

  const columns: Column<Entry>[] = [
    { head: m.queue.position, cell: (entry) => entry.position },
    {
      head: m.queue.run,
      main: true,
      text: true,
      cell: (entry) => (
        <Link to="/runs/$runId" params={{ runId: entry.runId }}>
          {entry.planId}@{entry.planVersion} {shortId(entry.runId)}
        </Link>
      ),
    },
    { head: m.queue.where, cell: (entry) => <Where project={entry.projectId} environment={entry.environmentId} /> },
    { head: m.queue.by, wide: true, cell: (entry) => entry.triggeredBy },
    { head: m.queue.priority, wide: true, cell: (entry) => entry.priority },
    { head: m.queue.why, text: true, cell: (entry) => entry.waitsFor && m.queue.waits[entry.waitsFor] },
    { head: m.queue.waited, wide: true, cell: (entry) => ticking(Math.max(0, Date.now() - instant(entry.createdAt))) },
    {
      head: m.queue.estimate,
      cell: (entry) =>
        entry.estimatedWaitMs !== null
          ? `≈ ${ticking(entry.estimatedWaitMs)}`
          : entry.slots && entry.waitsFor !== "HOLD"
            ? m.queue.afterEnd(endsNeeded(entry.slots))
            : m.queue.unknown,
    },
    {
      head: m.queue.expires,
      text: true,
      cell: (entry) =>
        entry.expiresAt ? (
          <>
            <Time at={instant(entry.expiresAt)} format="full" />
            <br />
            <span className={css.hint}>{m.queue.thenFails}</span>
          </>
        ) : (
          entry.waitsFor === "HOLD" && <span className={css.hint}>{m.queue.timeHeld}</span>
        ),
    },
    {
      head: m.queue.act,
      cell: (entry) => (
        <Button
          label={m.queue.cancel(shortId(entry.runId))}
          refusal={may}
          onClick={() => setWanted({ entry, signalId: `ui-${newId()}` })}
        >
          {m.action.CANCEL}…
        </Button>
      ),
    },
  ];

  const cancel = async (reason: string): Promise<void> => {
    if (!wanted) return;
    const { cancelRun } = await request(CancelRunDocument, {
      input: { runId: wanted.entry.runId, signalId: wanted.signalId, reason: reason === "" ? null : reason },
    });
    receipts.receive(toSignal(cancelRun.signal));
    pages.refresh();
  };

  return (
    <div className={page.measure}>
      <PageHead title={m.queue.title} asOf={pages.asOf} refresh={pages.refresh} repeated>
        {depth !== null && <span className={css.asOf}>{m.queue.depth(count(depth))}</span>}
      </PageHead>
      <SlotHolders
        slots={slotsOf(pages.rows ?? [])}
        held={pages.rows?.some(({ waitsFor }) => waitsFor === "HOLD") ?? false}
        every={EVERY_MS}
      />
      <List
        label={m.queue.title}
        pages={pages}
        columns={columns}
        rowKey={(entry) => entry.runId}
        empty={<p>{m.queue.empty}</p>}
      />
      <GivenUp />
      {wanted && (
        <ReasonDialog
          title={m.queue.cancel(shortId(wanted.entry.runId))}
          verb={m.action.CANCEL}
          back={m.confirm.keep}
          reason="optional"
          danger
          word={shortId(wanted.entry.runId)}
          act={cancel}
          onClose={() => setWanted(null)}
        >
          <p>{m.queue.cancelMeans}</p>
        </ReasonDialog>
      )}
    </div>
  );
}
