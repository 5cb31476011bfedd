import { randomBytes } from "node:crypto";
import { ask } from "./api";

interface Policy {
  version: number;
  grants: object[];
  sod: object;
  approvals: object[];
  breakGlass: object[];
}

/** From now on that many people must approve the runs of an environment of the project; 0 takes the rule away. */
export async function requireApproval(url: string, environmentId: string, required: number): Promise<void> {
  const fields = "version grants { principal role projectId environmentId expiresAt breakGlass } sod { approve completeManual } approvals { projectId environmentId required } breakGlass { principal role maxMinutes }";
  const { policy } = await ask<{ policy: Policy }>(url, "dev-admin", `{ policy { ${fields} } }`);
  const { version, ...document } = policy;
  const others = document.approvals.filter((approval) => !("environmentId" in approval) || approval.environmentId !== environmentId);
  const approvals = required > 0 ? [...others, { projectId: "shop", environmentId, required }] : others;
  await ask(url, "dev-admin", "mutation Set($input: SetPolicyInput!) { setPolicy(input: $input) { policy { version } } }", {
    input: { requestId: `e2e-${randomBytes(8).toString("hex")}`, expectedVersion: version, reason: "what runs here is approved first", document: { ...document, approvals } },
  });
}
