// The part of dbt's manifest.json that a list of its nodes shows. The manifest is an artifact of the step.

/** The manifest is read when the list opens, up to this size; a larger one when somebody asks. */
export const READ_AT_ONCE = 8 << 20;

export interface ManifestNode {
  /** dbt's ids of the nodes that it reads, models and sources. */
  needs: readonly string[];
  /** dbt's ids of the models that read it, and the number of tests of it. */
  usedBy: readonly string[];
  tests: number;
  /** The materialization, such as table or view; null for a node that dbt does not store. */
  materialized: string | null;
  /** Its file in the project. */
  file: string | null;
}

export type Manifest = ReadonlyMap<string, ManifestNode>;

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function isTest(uniqueId: string): boolean {
  return /^(?:unit_)?test\./.test(uniqueId);
}

/** Reads the nodes of a manifest. What it does not understand it leaves out: versions of dbt differ. */
export function manifestOf(document: unknown): Manifest {
  const nodes = Object.entries(record(record(document)["nodes"]));
  const needs = new Map(
    nodes.map(([id, node]) => {
      const needed = record(record(node)["depends_on"])["nodes"];
      return [id, Array.isArray(needed) ? needed.filter((one) => typeof one === "string") : []] as const;
    }),
  );
  const users = new Map<string, string[]>();
  for (const [id, needed] of needs) for (const one of needed) users.set(one, [...(users.get(one) ?? []), id]);
  return new Map(
    nodes.map(([id, node]) => {
      const used = users.get(id) ?? [];
      const kind = text(record(record(node)["config"])["materialized"]);
      return [
        id,
        {
          needs: needs.get(id) ?? [],
          usedBy: used.filter((other) => !isTest(other)),
          tests: used.filter(isTest).length,
          materialized: kind === "test" ? null : kind,
          file: text(record(node)["original_file_path"]),
        },
      ];
    }),
  );
}

/** The name in a unique id of dbt, such as model.shop.orders. That of a source has its schema in front. */
export function nodeName(uniqueId: string): string {
  const [kind, , ...rest] = uniqueId.split(".");
  return kind === "test" ? (rest[0] ?? uniqueId) : rest.join(".") || uniqueId;
}
