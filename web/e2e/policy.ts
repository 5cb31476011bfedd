import { randomBytes } from "node:crypto";
import { ask } from "./api";

interface Policy {
  version: number;
  grants: object[];
  sod: object;
  approvals: object[];
  breakGlass: object[];
}

async function change(
  url: string,
  reason: string,
  to: (policy: Omit<Policy, "version">) => Partial<Policy>,
): Promise<void> {
  const fields =
    "version grants { principal role projectId environmentId expiresAt breakGlass } sod { approve completeManual } approvals { projectId environmentId required } breakGlass { principal role maxMinutes }";
  const { policy } = await ask<{ policy: Policy }>(url, "dev-admin", `{ policy { ${fields} } }`);
  const { version, ...document } = policy;
  await ask(
    url,
    "dev-admin",
    "mutation Set($input: SetPolicyInput!) { setPolicy(input: $input) { policy { version } } }",
    {
      input: {
        requestId: `e2e-${randomBytes(8).toString("hex")}`,
        expectedVersion: version,
        reason,
        document: { ...document, ...to(document) },
      },
    },
  );
}

/** From now on that many people must approve the runs of an environment of the project; 0 takes the rule away. */
export async function requireApproval(url: string, environmentId: string, required: number): Promise<void> {
  await change(url, "what runs here is approved first", ({ approvals }) => {
    const others = approvals.filter(
      (approval) => !("environmentId" in approval) || approval.environmentId !== environmentId,
    );
    return { approvals: required > 0 ? [...others, { projectId: "shop", environmentId, required }] : others };
  });
}

/** From now on the principal of `dvt dev` has the role everywhere beside its own, or no longer. */
export async function grant(url: string, principal: string, role: "ADMIN" | "ENGINEER", has: boolean): Promise<void> {
  await change(url, "e2e", ({ grants }) => {
    const others = grants.filter(
      (held) => !("role" in held) || held.role !== role || !("principal" in held) || held.principal !== principal,
    );
    return { grants: has ? [...others, { principal, role }] : others };
  });
}

/** From now on the project has these limits of its own, 0 lets nothing through; null: those of its tier. */
export async function limitProject(
  url: string,
  limits: { maxActive: number } | { signalOpsPerMinute: number } | null,
): Promise<void> {
  const { quotaSettings } = await ask<{ quotaSettings: { version: number } }>(
    url,
    "dev-admin",
    "{ quotaSettings { version } }",
  );
  await ask(
    url,
    "dev-admin",
    "mutation Set($input: SetQuotaInput!) { setQuota(input: $input) { settings { version } } }",
    {
      input: {
        requestId: `e2e-${randomBytes(8).toString("hex")}`,
        expectedVersion: quotaSettings.version,
        reason: "e2e",
        settings: { projects: limits === null ? [] : [{ projectId: "shop", limits }] },
      },
    },
  );
}
