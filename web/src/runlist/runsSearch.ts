import type { RunQuery } from "./query";

/** A query as the address of the runs page holds it. The lists of statuses become words in `stringifySearch`. */
export function toRunsSearch({ status, project, env, plan, by, q, from, to, sort }: RunQuery): RunQuery {
  return { status, project, env, plan, by, q, from, to, sort };
}
