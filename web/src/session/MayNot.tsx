// Why the viewer may not do something of the administration, and whom they could ask, as text that needs no pointer.
import { type ReactNode, useId } from "react";
import { type Action, RightHoldersDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import prose from "../styles/Prose.module.css";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice } from "../ui/Page";
import { BreakGlassButton } from "./BreakGlass";
import { useCan } from "./useCan";

export interface May {
  /** Why the viewer may do this nowhere, with the names of those who may; null when they may do it somewhere. */
  refusal: string | null;
  /** The id of the text that `MayNot` shows, for the buttons that it is about; undefined without a refusal. */
  saidBy: string | undefined;
}

/**
 * Like `useCan`, with the role by the tenant's policy and the people whom the viewer may see and could ask. `says`
 * replaces the sentence about the role where the action has another name than what the viewer does.
 */
export function useMay(action: Action, says?: string): May {
  const needed = useCan(action);
  const { answer: holders } = useQuery(
    RightHoldersDocument,
    needed === null ? null : { actions: [action] },
    ({ rightHolders }) => rightHolders[0],
  );
  const could = holders && holders.names.length > 0 ? ` ${m.denied.could(holders.names, holders.more)}` : "";
  const id = useId();
  if (needed === null) return { refusal: null, saidBy: undefined };
  return { refusal: `${says ?? holders?.needs ?? needed}${could}`, saidBy: id };
}

export function MayNot({ of: { refusal, saidBy } }: { of: May }) {
  if (refusal === null) return null;
  return (
    <p id={saidBy} className={prose.quiet}>
      {refusal}
    </p>
  );
}

interface GateProps {
  action: Action;
  /** Of the page. */
  title: string;
  children: ReactNode;
}

/**
 * Shows its children to those who have the right somewhere, and to others who has it. The server is not asked for what
 * it would refuse: each refusal is a record of the audit, which nobody would have caused knowingly.
 */
export function Gate({ action, title, children }: GateProps) {
  return useCan(action) === null ? children : <Refused action={action} title={title} />;
}

function Refused({ action, title }: Omit<GateProps, "children">) {
  useDocumentStatus(title);
  const { refusal } = useMay(action);
  return (
    <>
      <h1>{title}</h1>
      <Notice title={m.page.forbidden}>
        <p>{refusal}</p>
        <BreakGlassButton lacks={action} />
      </Notice>
    </>
  );
}
