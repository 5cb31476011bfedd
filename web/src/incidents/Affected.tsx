import { incidents as words } from "../messages/incidents";
import { Where } from "../ui/Env";
import type { Incident } from "./incident";

/** What an incident affects: the installation, the tenant, a project, or one of its environments. */
export function Affected({ of: { installation, projectId, environmentId } }: { of: Incident }) {
  if (installation) return words.installation;
  if (projectId === null) return words.tenant;
  return environmentId === null ? words.project(projectId) : <Where project={projectId} environment={environmentId} />;
}
