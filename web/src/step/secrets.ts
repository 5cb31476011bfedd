// The references to secrets in a step; their values are never here.
import type { StepInputsQuery } from "../api/gen/graphql";

type Inputs = NonNullable<NonNullable<NonNullable<StepInputsQuery["run"]>["step"]>["inputs"]>;

/** The deepest level that is searched. */
const DEEPEST = 32;

/**
 * The references without duplicates, as provider:key@version: those of the plan first, then those in inputs and
 * parameters.
 */
export function secretNames({ secrets, inputs, params }: Pick<Inputs, "secrets" | "inputs" | "params">): string[] {
  const names = new Set(secrets.map(nameOf));
  gather(inputs, names, DEEPEST);
  gather(params, names, DEEPEST);
  return [...names];
}

/** A reference as provider:key@version. */
export function nameOf({ provider, key, version }: { provider: string; key: string; version?: string | null }): string {
  return `${provider}:${key}${version ? `@${version}` : ""}`;
}

function gather(value: unknown, names: Set<string>, deep: number): void {
  if (typeof value !== "object" || value === null || deep === 0) return;
  if (!Array.isArray(value) && "provider" in value && "key" in value) {
    const { provider, key } = value;
    const version = "version" in value && typeof value.version === "string" ? value.version : null;
    if (typeof provider === "string" && typeof key === "string") names.add(nameOf({ provider, key, version }));
  }
  for (const part of Object.values(value)) gather(part, names, deep - 1);
}
