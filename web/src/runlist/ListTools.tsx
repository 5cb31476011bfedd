import { Suspense, useState } from "react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { lazyPart } from "../ui/lazyPart";
import type { Column } from "./columns";
import css from "./ListTools.module.css";
import type { RunQuery } from "./query";
import { obstacleOf, SORTS, type Sort } from "./sorts";

const ColumnsDialog = lazyPart(() => import("./ColumnsDialog").then((part) => part.ColumnsDialog));

interface ListToolsProps {
  query: RunQuery;
  change: (query: RunQuery) => void;
  columns: readonly Column[];
  choose: (columns: Column[] | null) => void;
}

/** The order and the columns of the list. An order that the server refuses for the filter says why. */
export function ListTools({ query, change, columns, choose }: ListToolsProps) {
  const [choosing, setChoosing] = useState(false);
  const sort = query.sort ?? "newest";
  return (
    <div className={css.tools}>
      <label className={css.sort}>
        {m.runs.sort}{" "}
        <select
          value={sort}
          title={sort === "newest" || sort === "oldest" ? undefined : m.runs.sortedMeans[sort]}
          onChange={({ target }) => {
            const next = SORTS.find((one): one is Sort => one === target.value);
            change({ ...query, sort: next === "newest" ? undefined : next });
          }}
        >
          {SORTS.map((one) => {
            const obstacle = one === sort ? null : obstacleOf(one, query);
            return (
              <option key={one} value={one} disabled={obstacle !== null}>
                {m.runs.sorts[one]}
                {obstacle && ` (${m.runs.sortNeeds[obstacle]})`}
              </option>
            );
          })}
        </select>
      </label>
      <Button kind="quiet" onClick={() => setChoosing(true)}>
        {m.runs.chooseColumns}
      </Button>
      {choosing && (
        <Suspense>
          <ColumnsDialog shown={columns} choose={choose} close={() => setChoosing(false)} />
        </Suspense>
      )}
    </div>
  );
}
