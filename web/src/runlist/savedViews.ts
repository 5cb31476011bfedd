// Named queries of the runs page: those of the viewer and those that others share, kept by the server.
import { DeleteViewDocument, SavedViewsDocument, type SavedViewsQuery, SaveViewDocument } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { recordDone } from "../session/done";

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
      const input = { id: `v-${newId()}`, name, query, projectId: projectId ?? null };
      const { saveView } = await request(SaveViewDocument, { input });
      if (projectId !== undefined) {
        // Others see it: a view of one's own needs no receipt.
        const what = m.receipt.viewShared(name, projectId);
        recordDone({ topic: "views", what, effect: { page: "runs" }, change: saveView.change });
      }
      again();
    },
    drop: async ({ viewId, name, projectId }) => {
      const { deleteView } = await request(DeleteViewDocument, { input: { id: viewId } });
      if (projectId !== null) {
        const what = m.receipt.viewRemoved(name);
        recordDone({ topic: "views", what, effect: { page: "runs" }, change: deleteView.change });
      }
      again();
    },
  };
}
