import { tokenOf } from "./dvt";

/** Asks dvt as one of its principals and gives the data; throws what it says instead. */
export async function ask<T>(
  url: string,
  principal: string,
  query: string,
  variables: Record<string, unknown> = {},
): Promise<T> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${tokenOf(principal)}` },
    body: JSON.stringify({ query, variables }),
  });
  const body = (await response.json()) as { data?: T; errors?: { message: string }[] };
  if (!body.data || body.errors)
    throw new Error(`dvt answered ${response.status}: ${JSON.stringify(body.errors ?? body)}`);
  return body.data;
}

export interface Receipt {
  signalId: string;
  type: string;
  decision: string;
  application: string | null;
  appliedSeq: number | null;
  actor: string;
  reason: string | null;
}

/** The receipts of a run, the oldest first. */
export async function receiptsOf(url: string, runId: string): Promise<Receipt[]> {
  const query =
    "query R($runId: String!) { run(runId: $runId) { signals(first: 50) { edges { node { signalId type decision application appliedSeq actor reason } } } } }";
  const { run } = await ask<{ run: { signals: { edges: { node: Receipt }[] } } }>(url, "dev-admin", query, { runId });
  return run.signals.edges.map(({ node }) => node);
}

/** Sends a signal as a script would. */
export function signal(url: string, principal: string, runId: string, what: Record<string, unknown>): Promise<unknown> {
  const query = "mutation S($input: SignalRunInput!) { signalRun(input: $input) { signal { signalId } } }";
  return ask(url, principal, query, {
    input: { runId, signalId: `e2e-${Math.random().toString(36).slice(2)}`, signal: what },
  });
}

interface Policy {
  version: number;
  grants: Record<string, unknown>[];
}

/** Changes the policy of the tenant and returns what puts it back. */
export async function changePolicy(
  url: string,
  change: (grants: Policy["grants"]) => { grants: Policy["grants"]; approvals?: Record<string, unknown>[] },
): Promise<() => Promise<void>> {
  const read = (): Promise<{ policy: Policy }> =>
    ask(url, "dev-admin", "{ policy { version grants { principal role projectId environmentId } } }");
  const set = async (document: Record<string, unknown>): Promise<void> => {
    const { policy } = await read();
    const input = {
      requestId: `e2e-${Math.random().toString(36).slice(2)}`,
      expectedVersion: policy.version,
      document,
      reason: "e2e",
    };
    await ask(
      url,
      "dev-admin",
      "mutation P($input: SetPolicyInput!) { setPolicy(input: $input) { policy { version } } }",
      { input },
    );
  };
  const { policy } = await read();
  await set(change(policy.grants));
  return () => set({ grants: policy.grants });
}
