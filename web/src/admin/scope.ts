// Rights in words.
import { m } from "../messages";

const ANY = "*";

export function scopeWords({ projectId, environmentId }: { projectId: string; environmentId: string }): string {
  return projectId === ANY && environmentId === ANY ? m.policy.everywhere : m.policy.scope(projectId, environmentId);
}

/** A role as people say it; one that this page does not know as the server says it. */
export function roleWords(role: string): string {
  return Object.hasOwn(m.role, role) ? m.role[role as keyof typeof m.role] : role;
}
