// Roles, scopes and actions in words.
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
