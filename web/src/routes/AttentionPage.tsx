import { Link } from "@tanstack/react-router";
import { Suspense } from "react";
import { LastFailureDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { useAttention } from "../attention/attention";
import { AttentionList } from "../attention/AttentionList";
import css from "../attention/Attention.module.css";
import { FailedLately } from "../attention/FailedLately";
import { m } from "../messages";
import { Problem } from "../page/Problem";
import { useDocumentStatus } from "../ui/documentStatus";
import { lazyPart } from "../ui/lazyPart";
import { Notice, Skeleton } from "../ui/Page";
import { Time, useTick } from "../ui/Time";

const PlansOverview = lazyPart(() => import("../plans/PlansOverview").then((part) => part.PlansOverview));
const FirstSteps = lazyPart(() => import("../start/FirstSteps").then((part) => part.FirstSteps));
const MANY = 100;
const EVERY_MS = 60_000;

/** The first page: what needs attention, and below it the plans. */
export function AttentionPage() {
  const { items, count, error, offset, stale } = useAttention();
  useDocumentStatus(
    items !== null && count > 0 ? `(${count}${count >= MANY ? "+" : ""}) ${m.attention.title}` : m.attention.title,
  );
  useTick(1_000, items !== null && items.length > 0);
  return (
    <>
      <div className={css.head}>
        <h1>{m.attention.title}</h1>
        <Link to="/runs" search={{}} className={css.all}>
          {m.attention.toRuns}
        </Link>
      </div>
      {error !== null && items === null && <Problem error={error} retry={() => location.reload()} />}
      {items === null && error === null && <Skeleton rows={3} label={m.attention.loading} />}
      {stale && (
        <p className={css.note} role="status">
          {m.attention.stale}
        </p>
      )}
      {count >= MANY && <p className={css.note}>{m.attention.more(MANY)}</p>}
      {items !== null && items.length > 0 && <AttentionList items={items} now={Date.now() + offset} />}
      {items !== null && items.length === 0 && <Nothing />}
      <FailedLately />
      <h2>{m.plans.title}</h2>
      <Suspense>
        <PlansOverview none={<FirstSteps />} />
      </Suspense>
    </>
  );
}

/** Says that nothing needs the viewer, and when a run failed last. */
function Nothing() {
  const { answer } = useQuery(
    LastFailureDocument,
    {},
    ({ runs }) => ({ last: runs.edges[0]?.node.completedAt ?? null }),
    {
      every: EVERY_MS,
    },
  );
  return (
    <Notice title={m.attention.none}>
      {answer && (
        <p>
          {answer.last === null ? (
            m.attention.neverFailed
          ) : (
            <>
              {m.attention.lastFailed} <Time at={instant(answer.last)} format="full" />.
            </>
          )}
        </p>
      )}
    </Notice>
  );
}
