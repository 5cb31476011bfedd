import { RunParamsDocument } from "../api/gen/graphql";
import { queryOnce } from "../api/useQuery";
import { m } from "../messages";

type Params = Readonly<Record<string, unknown>>;

/** The parameters of a run; null when the run cannot be read, undefined while they are awaited. */
export const useRunParams = queryOnce(
  RunParamsDocument,
  ({ run }): Params | null => (run ? ((run.request.params ?? {}) as Params) : null),
  ({ run }) => run !== null,
);

/** The parameters that the run was started with. The server hides the values that look like secrets. */
export function RunParams({ runId }: { runId: string }) {
  const params = useRunParams({ runId });
  if (params === undefined) return <>{m.details.reading}</>;
  if (params === null) return <>{m.details.unknown}</>;
  const named = Object.entries(params);
  if (named.length === 0) return <>{m.details.noParams}</>;
  return (
    <>
      {named.map(([name, value]) => (
        <div key={name}>
          <code>
            {name}={typeof value === "string" ? value : JSON.stringify(value)}
          </code>
        </div>
      ))}
    </>
  );
}
