import { Link } from "@tanstack/react-router";
import { Suspense } from "react";
import { LastFailureDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { useAttention } from "../attention/attention";
import { MANY } from "../attention/count";
import { AttentionList } from "../attention/AttentionList";
import css from "../attention/Attention.module.css";
import { FailedCount, FailedLately, useFailedLately } from "../attention/FailedLately";
import { RunsNow } from "../attention/RunsNow";
import { shortId } from "../format/format";
import { m } from "../messages";
import { Problem } from "../page/Problem";
import { useDocumentStatus } from "../ui/documentStatus";
import { lazyPart } from "../ui/lazyPart";
import { Notice, Skeleton } from "../ui/Page";
import { Time, useTick } from "../ui/Time";

const PlansOverview = lazyPart(() => import("../plans/PlansOverview").then((part) => part.PlansOverview));
const OpenAlerts = lazyPart(() => import("../alerts/OpenAlerts").then((part) => part.OpenAlerts));
const FirstSteps = lazyPart(() => import("../start/FirstSteps").then((part) => part.FirstSteps));
const EVERY_MS = 60_000;

/** The first page: what needs attention, and below it the plans. */
export function AttentionPage() {
  const { items, count, error, offset, stale } = useAttention();
  const failed = useFailedLately();
  useDocumentStatus(m.attention.title);
  useTick(1_000, items !== null && items.length > 0);
  return (
    <>
      <div className={css.head}>
        <h1>{m.attention.title}</h1>
        {failed && <FailedCount of={failed} />}
        <Suspense>
          <OpenAlerts />
        </Suspense>
        <Link to="/runs" search={{}} className={css.all}>
          {m.attention.toRuns}
        </Link>
      </div>
      <RunsNow late={items?.filter(({ kind }) => kind === "LATE").length ?? 0} />
      {error !== null && items === null && <Problem error={error} retry={() => location.reload()} />}
      {items === null && error === null && <Skeleton rows={3} label={m.attention.loading} />}
      {stale && (
        <p className={css.note} role="status">
          {m.attention.stale}
        </p>
      )}
      {count >= MANY && <p className={css.note}>{m.attention.more(MANY)}</p>}
      {items !== null && <AttentionList items={items} now={Date.now() + offset} />}
      {items !== null && items.length === 0 && failed && <Nothing failed={failed.runs} />}
      {failed && <FailedLately of={failed} />}
      <Suspense>
        <PlansOverview title={<h2>{m.plans.title}</h2>} none={<FirstSteps />} />
      </Suspense>
    </>
  );
}

/** Says that nothing needs the viewer now, and how to read that: what failed before is below. */
function Nothing({ failed }: { failed: number }) {
  const { answer } = useQuery(
    LastFailureDocument,
    failed === 0 ? {} : null,
    ({ runs }) => ({ last: runs.edges[0]?.node ?? null }),
    { every: EVERY_MS },
  );
  return (
    <Notice title={m.attention.none}>
      {failed > 0 && <p>{m.attention.yetFailed(failed)}</p>}
      {failed === 0 && answer && (
        <p>
          {answer.last === null ? (
            m.attention.neverFailed
          ) : (
            <>
              {m.attention.lastFailed}{" "}
              <Link to="/runs/$runId" params={{ runId: answer.last.runId }} search={{}}>
                {answer.last.plan.planId} <code>{shortId(answer.last.runId)}</code>
              </Link>
              {answer.last.completedAt !== null && (
                <>
                  , <Time at={instant(answer.last.completedAt)} format="full" />
                </>
              )}
              .
            </>
          )}
        </p>
      )}
    </Notice>
  );
}
