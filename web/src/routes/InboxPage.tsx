import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useReceipts } from "../receipts/context";
import { useViewer } from "../session/viewer";
import { ReceiptStages, ReceiptTitle } from "../receipts/Receipt";
import { ApprovalsDocument, DecisionsDocument, type ManualOutcome, TasksDocument } from "../api/gen/graphql";
import { useConnection } from "../api/useConnection";
import { useQuery } from "../api/useQuery";
import { Decided, LastCompletion, LastDecision } from "../inbox/Decided";
import { useCan } from "../session/useCan";
import { useKeptFocus, useRowKeys } from "../ui/useSelection";
import { Decide } from "../inbox/Decide";
import { useInbox } from "../inbox/inbox";
import tabs from "../styles/Tabs.module.css";
import css from "../inbox/Inbox.module.css";
import { InboxList } from "../inbox/InboxList";
import { isMine, type Item, toItems } from "../inbox/items";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { useKeys } from "../ui/keys";
import { PageHead } from "../page/List";
import { Notice, Skeleton } from "../ui/Page";
import { Problem } from "../page/Problem";
import { INBOX_PARTS } from "./search";
import page from "../styles/Page.module.css";

const route = getRouteApi("/inbox");

/** The inbox: runs to approve and steps to complete, live. */
export function InboxPage() {
  const { show = "me", project, env } = route.useSearch();
  const { count, moved } = useInbox();
  useDocumentStatus(m.inbox.title, count ? "person" : null);
  const approvals = useConnection(ApprovalsDocument, {}, (result) => result.approvals);
  const tasks = useConnection(TasksDocument, {}, (result) => result.manualTasks);
  const [deciding, setDeciding] = useState<{ item: Item; yes: boolean } | null>(null);
  const [decided, setDecided] = useState<string | null>(null);
  const [completed, setCompleted] = useState<{ stepId: string; outcome: ManualOutcome } | null>(null);
  const refresh = (): void => {
    approvals.refresh();
    tasks.refresh();
  };
  useEffect(() => {
    if (moved > 0) refresh();
    // Asked for again with each change of the inbox only.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [moved]);
  const all = toItems(approvals.rows ?? [], tasks.rows ?? [], { project, env });
  const mine = all.filter(isMine);
  const items = show === "me" ? mine : all;
  const decide = (yes: boolean) => (): void => {
    const key = document.activeElement?.closest<HTMLElement>("[data-item]")?.dataset["item"];
    const item = items.find((other) => other.key === key) ?? items[0];
    if (item && (item.refusal === null || (!yes && item.mayReject))) setDeciding({ item, yes });
  };
  useRowKeys();
  useKeys({ a: { does: m.keys.approve, run: decide(true) }, d: { does: m.keys.decline, run: decide(false) } });
  const error = approvals.error ?? tasks.error;
  const read = approvals.rows !== null && tasks.rows !== null;
  const more = [approvals, tasks].some((pages) => pages.hasMore);
  const counts = {
    me: read ? m.inbox.some(mine.length, more) : null,
    all: read ? m.inbox.some(all.length, more) : null,
    done: null,
  };
  return (
    <div className={page.measure} onFocus={useKeptFocus()}>
      <PageHead title={m.inbox.title} asOf={Math.min(approvals.asOf, tasks.asOf)} refresh={refresh} />
      <nav className={tabs.tabs} aria-label={m.inbox.title}>
        {INBOX_PARTS.map((part) => (
          <Link
            key={part}
            to="/inbox"
            search={(old) => ({ ...old, show: part === "me" ? undefined : part })}
            className={tabs.tab}
            aria-current={part === show ? "page" : undefined}
            activeOptions={{ exact: true, includeSearch: true }}
          >
            {m.inbox.parts[part]} {counts[part]}
          </Link>
        ))}
      </nav>
      {decided !== null && show !== "done" && (
        <LastDecision
          runId={decided}
          stuck={all.some(({ runId, stuck }) => runId === decided && stuck)}
          refetchOn={moved}
        />
      )}
      {completed !== null && show !== "done" && <LastCompletion {...completed} />}
      {show === "done" ? (
        <Done />
      ) : !read ? (
        error === null ? (
          <Skeleton rows={4} label={m.inbox.loading} />
        ) : (
          <Problem error={error} retry={refresh} />
        )
      ) : (
        <>
          {error !== null && <Problem error={error} retry={refresh} />}
          {items.length > 0 ? (
            <InboxList items={items} decide={(item, yes) => setDeciding({ item, yes })} />
          ) : (
            <Notice title={show === "me" ? m.inbox.noneForMe : m.inbox.none}>
              {show === "me" && all.length > 0 && <p>{m.inbox.othersWait(all.length)}</p>}
            </Notice>
          )}
          {more && (
            <Button
              onClick={() => {
                approvals.more();
                tasks.more();
              }}
            >
              {m.page.more}
            </Button>
          )}
        </>
      )}
      {deciding && (
        <Decide
          item={deciding.item}
          yes={deciding.yes}
          done={({ outcome }) => {
            const { approval, runId, stepId } = deciding.item;
            setDecided(approval ? runId : null);
            setCompleted(stepId !== null && outcome ? { stepId, outcome } : null);
            refresh();
          }}
          close={() => setDeciding(null)}
        />
      )}
    </div>
  );
}

/** The decisions of the viewer with what became of each run, and the steps that they completed, with receipts. */
function Done() {
  const viewer = useViewer();
  const mayReadAudit = useCan("READ_AUDIT") === null;
  const { answer: decisions, error, again } = useQuery(DecisionsDocument, {}, (result) => result.viewer.decisions);
  const own = useReceipts().filter(
    (signal) => signal.actor === viewer.principal && signal.type === "COMPLETE_MANUAL_STEP",
  );
  return (
    <>
      {error && <Problem error={error} retry={again} />}
      {own.length === 0 && decisions?.length === 0 && <Notice title={m.inbox.noneDone} />}
      {decisions && decisions.length > 0 && (
        <ul className={css.list}>
          {decisions.map((decided) => (
            <Decided key={decided.runId} decided={decided} />
          ))}
        </ul>
      )}
      {own.length > 0 && (
        <ul className={css.list}>
          {own.map((signal) => (
            <li key={signal.signalId} className={css.item}>
              <ReceiptTitle signal={signal} />
              <ReceiptStages signal={signal} />
            </li>
          ))}
        </ul>
      )}
      {mayReadAudit && (
        <p className={css.where}>
          {m.inbox.decisions}{" "}
          <Link to="/audit" search={{ actor: viewer.principal, action: "APPROVE" }}>
            {m.nav.audit}
          </Link>
        </p>
      )}
    </>
  );
}
