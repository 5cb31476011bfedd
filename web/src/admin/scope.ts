// Roles, scopes and actions in words.
import type { PolicyFieldsFragment } from "../api/gen/graphql";
import { bytes } from "../format/format";
import { m } from "../messages";

const ANY = "*";

export function scopeWords({ projectId, environmentId }: { projectId: string; environmentId: string }): string {
  return projectId === ANY && environmentId === ANY ? m.policy.everywhere : m.policy.scope(projectId, environmentId);
}

/** The name of a role; an unknown role keeps the server's name. */
export function roleWords(role: string): string {
  return Object.hasOwn(m.role, role) ? m.role[role as keyof typeof m.role] : role;
}

/** The name of an action; an unknown action keeps the server's name. */
export function actionWords(action: string): string {
  return Object.hasOwn(m.action, action) ? m.action[action as keyof typeof m.action] : action;
}

type Ceiling = PolicyFieldsFragment["sandbox"][number];

/** What a ceiling lets the programs of its scope have at most. */
export function ceilingWords({
  memory,
  cpu,
  pids,
  disk,
  connect,
  require,
}: Omit<Ceiling, "projectId" | "environmentId">): string {
  const words = m.policy.bounds;
  const said = [
    memory !== null && words.memory(bytes(memory)),
    cpu !== null && words.cpu(cpu),
    pids !== null && words.pids(pids),
    disk !== null && words.disk(bytes(disk)),
    connect !== null && words.connect(connect),
    require.length > 0 && words.require(require),
  ].filter((one) => one !== false);
  return said.length === 0 ? words.none : said.join(", ");
}
