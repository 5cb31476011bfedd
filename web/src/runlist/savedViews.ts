// Named queries of the runs page: those of the viewer and those that others share, kept by the server.
import { DeleteViewDocument, SavedViewsDocument, type SavedViewsQuery, SaveViewDocument } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";

export type SavedView = SavedViewsQuery["savedViews"][number];

export const MAX_VIEWS = 100;
const EVERY_MS = 60_000;

export interface Views {
  views: readonly SavedView[];
  /** Saves the query under a name, shared with the project if one is given. */
  save: (name: string, query: string, projectId: string | undefined) => Promise<void>;
  drop: (view: SavedView) => Promise<void>;
}

export function useSavedViews(): Views {
  const { last, again } = useQuery(SavedViewsDocument, {}, ({ savedViews }) => savedViews, { every: EVERY_MS });
  return {
    views: last ?? [],
    save: async (name, query, projectId) => {
      await request(SaveViewDocument, { input: { id: `v-${newId()}`, name, query, projectId: projectId ?? null } });
      again();
    },
    drop: async ({ viewId }) => {
      await request(DeleteViewDocument, { input: { id: viewId } });
      again();
    },
  };
}
