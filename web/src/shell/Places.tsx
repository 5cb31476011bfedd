import { useNavigate, useRouterState, useSearch } from "@tanstack/react-router";
import type { Viewer } from "../session/viewer";
import { m } from "../messages";
import { isProduction } from "../ui/Env";
import { Choice } from "./Choice";
import css from "./Shell.module.css";

/** The pages that can be narrowed to a project and environment; from any other the choice opens the runs. */
const NARROWED = ["/runs", "/inbox", "/start"] as const;

function names(all: readonly string[], chosen: string | undefined): string[] {
  return [...new Set([...all, ...(chosen ? [chosen] : [])])].filter((name) => name !== "*").toSorted();
}

/**
 * The tenant, and the project and environment to which lists are narrowed. Production is a solid band with the word.
 */
export function Places({ viewer }: { viewer: Viewer }) {
  const { project, env } = useSearch({ strict: false });
  const path = useRouterState({ select: (state) => state.location.pathname });
  const navigate = useNavigate();
  const to = NARROWED.find((page) => page === path) ?? "/runs";
  const narrow = (place: { project?: string | undefined; env?: string | undefined }): void => {
    void navigate({ to, search: (old) => ({ ...(to === path ? old : {}), project, env, ...place }) });
  };
  const projects = names(
    [...viewer.grants, ...viewer.places].map((place) => place.projectId),
    project,
  );
  const within = viewer.places.filter((place) => project === undefined || place.projectId === project);
  const environments = names(
    [...viewer.grants, ...within].map((place) => place.environmentId),
    env,
  );
  return (
    <div className={css.places} role="group" aria-label={m.place.label}>
      <span className={css.tenant} title={m.place.tenant}>
        {viewer.tenantId}
      </span>
      {projects.length > 0 && (
        <Choice
          label={m.place.project}
          value={project ?? ""}
          options={[["", m.place.allProjects], ...projects.map((name) => [name, name] as const)]}
          choose={(name) => narrow({ project: name === "" ? undefined : name })}
        />
      )}
      {environments.length > 0 && (
        <Choice
          label={m.place.environment}
          value={env ?? ""}
          band={env !== undefined && isProduction(env)}
          options={[
            ["", m.place.allEnvironments],
            ...environments.map((name) => [name, isProduction(name) ? name.toUpperCase() : name] as const),
          ]}
          choose={(name) => narrow({ env: name === "" ? undefined : name })}
        />
      )}
    </div>
  );
}
