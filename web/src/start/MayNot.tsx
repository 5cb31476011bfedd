// Tells a person who may not start runs at the top of the form, not at its end, and names who can.
import { WhoCouldDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import css from "./Start.module.css";

interface MayNotProps {
  reason: string;
  projectId: string;
  environmentId: string;
}

export function MayNot({ reason, projectId, environmentId }: MayNotProps) {
  const known = projectId !== "" && environmentId !== "";
  const { answer } = useQuery(
    WhoCouldDocument,
    known ? { action: "START", projectId, environmentId } : null,
    ({ whoCould }) => whoCould,
    { after: 500 },
  );
  return (
    <p className={css.mayNot} role="status">
      <strong>{m.start.mayNot}</strong> {reason} {answer && answer.length > 0 && m.start.who(answer.join(", "))}
    </p>
  );
}
