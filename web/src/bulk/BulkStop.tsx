import { useState } from "react";
import { newId } from "../api/newId";
import { CancelBulkDocument } from "../api/gen/graphql";
import { request } from "../api/request";
import { m } from "../messages";
import { ReasonDialog } from "../forms/ReasonDialog";

/** Stops the rest of a bulk, with a reason. One request id, so that sending it again has no second effect. */
export function BulkStop({ id, waiting, onClose }: { id: string; waiting: number; onClose: () => void }) {
  const [requestId] = useState(() => `ui-${newId()}`);
  const act = async (reason: string): Promise<void> =>
    void (await request(CancelBulkDocument, { input: { id, requestId, reason } }));
  return (
    <ReasonDialog title={m.bulk.stop} verb={m.bulk.stop} reason="required" danger act={act} onClose={onClose}>
      <p>{m.bulk.stopMeans(waiting)}</p>
    </ReasonDialog>
  );
}
