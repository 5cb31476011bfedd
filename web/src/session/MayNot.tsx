// Why the viewer may not do something of the administration, and whom they could ask, as text that needs no pointer.
import { useId } from "react";
import { type Action, RightHoldersDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import { useCan } from "./useCan";

export interface May {
  /** Why the viewer may do this nowhere, with the names of those who may; null when they may do it somewhere. */
  refusal: string | null;
  /** The id of the text that `MayNot` shows, for the buttons that it is about; undefined without a refusal. */
  saidBy: string | undefined;
}

/** Like `useCan`, with the role by the tenant's policy and the people whom the viewer may see and could ask. */
export function useMay(action: Action): May {
  const needed = useCan(action);
  const { answer: holders } = useQuery(
    RightHoldersDocument,
    needed === null ? null : { actions: [action] },
    ({ rightHolders }) => rightHolders[0],
  );
  const could = holders && holders.names.length > 0 ? ` ${m.denied.could(holders.names, holders.more)}` : "";
  const id = useId();
  if (needed === null) return { refusal: null, saidBy: undefined };
  return { refusal: `${holders?.needs ?? needed}${could}`, saidBy: id };
}

export function MayNot({ of: { refusal, saidBy } }: { of: May }) {
  if (refusal === null) return null;
  return (
    <p id={saidBy} className={css.hint}>
      {refusal}
    </p>
  );
}
