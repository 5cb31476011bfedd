import type { RunQuery } from "./query";

/** A query as search parameters of the runs page. `stringifySearch` writes the lists. */
export function toRunsSearch({
  status,
  project,
  env,
  plan,
  tag,
  by,
  q,
  from,
  to,
  sort,
  cols,
  unread,
}: RunQuery): RunQuery {
  return { status, project, env, plan, tag, by, q, from, to, sort, cols, unread };
}
