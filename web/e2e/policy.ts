import { randomBytes } from "node:crypto";

interface Policy {
  version: number;
  grants: object[];
  sod: object;
  approvals: object[];
  breakGlass: object[];
}

/** Asks dvt as one of its principals. Throws what it answers when it refuses. */
export async function ask(url: string, token: string, query: string, variables: object = {}): Promise<Record<string, unknown>> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify({ query, variables }),
  });
  // The schema's own tests hold the server to the shape.
  const body = (await response.json()) as { data?: Record<string, unknown> | null; errors?: unknown };
  if (!body.data || body.errors !== undefined) throw new Error(JSON.stringify(body.errors));
  return body.data;
}

/** From now on that many people must approve the runs of an environment of the project; 0 takes the rule away. */
export async function requireApproval(url: string, environmentId: string, required: number): Promise<void> {
  const fields = "version grants { principal role projectId environmentId expiresAt breakGlass } sod { approve completeManual } approvals { projectId environmentId required } breakGlass { principal role maxMinutes }";
  // As the query asks for it.
  const { policy } = (await ask(url, "dev-admin", `{ policy { ${fields} } }`)) as { policy: Policy };
  const { version, ...document } = policy;
  const others = document.approvals.filter((approval) => !("environmentId" in approval) || approval.environmentId !== environmentId);
  const approvals = required > 0 ? [...others, { projectId: "shop", environmentId, required }] : others;
  await ask(url, "dev-admin", "mutation Set($input: SetPolicyInput!) { setPolicy(input: $input) { policy { version } } }", {
    input: { requestId: `e2e-${randomBytes(8).toString("hex")}`, expectedVersion: version, reason: "what runs here is approved first", document: { ...document, approvals } },
  });
}
