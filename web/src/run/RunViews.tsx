import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { Picture } from "./Picture";
import { m } from "../messages";
import { useHeader, useOrder } from "../runstate/context";
import type { StepQuery } from "../steps/selection";
import { STEP_SORTS, type StepFilter } from "../address/views";
import { Button } from "../ui/Button";
import { lazyPart } from "../ui/lazyPart";
import { useNarrow } from "../ui/narrow";
import { PendingPlan } from "./PendingPlan";
import css from "./RunViews.module.css";

const Details = lazyPart(() => import("./Details").then((part) => part.default));
const Events = lazyPart(() => import("../events/Events").then((part) => part.default));
const RunLogSearch = lazyPart(() => import("./RunLogSearch").then((part) => part.default));
const RunArtifacts = lazyPart(() => import("./RunArtifacts").then((part) => part.default));
const StepsGrid = lazyPart(() => import("../steps/StepsGrid").then((part) => part.StepsGrid));
const Timeline = lazyPart(() => import("../timeline/Timeline").then((part) => part.Timeline));
const RunReceipts = lazyPart(() => import("./RunReceipts").then((part) => part.default));

const route = getRouteApi("/runs/$runId");
const NO_FILTER: readonly StepFilter[] = [];

interface RunViewsProps {
  runId: string;
  chosen: string | null;
  choose: (stepId: string) => void;
}

/** The view of the run that the address names. */
export function RunViews({ runId, chosen, choose }: RunViewsProps) {
  const header = useHeader();
  const order = useOrder();
  const { view = "graph", show = NO_FILTER, find = "", group = null, sort = STEP_SORTS[0] } = route.useSearch();
  const navigate = route.useNavigate();
  const [asked, setAsked] = useState(false);
  const narrow = useNarrow();
  const setQuery = ({ show, find, group, sort }: StepQuery): void =>
    void navigate({
      search: (old) => ({
        ...old,
        show: show.length > 0 ? [...show] : undefined,
        find: find === "" ? undefined : find,
        group: group ?? undefined,
        sort: sort === STEP_SORTS[0] ? undefined : sort,
      }),
      replace: true,
    });
  if (!header) return null;
  const list = (
    <StepsGrid
      narrow={narrow}
      chosen={chosen}
      choose={choose}
      query={{ show, find, group, sort }}
      setQuery={setQuery}
    />
  );
  switch (view) {
    case "timeline":
      return <Timeline runId={runId} chosen={chosen} choose={choose} />;
    case "steps":
      return order.length === 0 ? <PendingPlan header={header} listed /> : list;
    case "events":
      return <Events runId={runId} />;
    case "receipts":
      return <RunReceipts runId={runId} />;
    case "artifacts":
      return <RunArtifacts runId={runId} />;
    case "logs":
      return <RunLogSearch runId={runId} />;
    case "details":
      return <Details header={header} />;
    case "graph":
      if (order.length === 0) return <PendingPlan header={header} listed={narrow} />;
      // A phone shows the list, because the graph does not fit.
      if (narrow && !asked) {
        return (
          <>
            {list}
            <p className={css.ask}>
              <Button onClick={() => setAsked(true)}>{m.run.showGraph}</Button>
            </p>
          </>
        );
      }
      return <Picture chosen={chosen} choose={choose} />;
  }
}
