import type { Availability } from "../api/model";
import { m } from "../messages";
import { useHeader } from "../runstate/context";
import { useViewer } from "../session/viewer";
import { CopyRequest } from "./PreviewList";
import { explain } from "./refusal";

/** Copies one request for all actions that the viewer may not do, with the rule and the policy that deny them. */
export function RequestAll({ denied, stepId }: { denied: readonly Availability[]; stepId: string | null }) {
  const header = useHeader();
  const { policyVersion } = useViewer();
  if (denied.length === 0) return null;
  const subject = [header?.plan.planId, header?.runId, stepId].filter((part) => part !== null && part !== undefined);
  const why = denied.map((one) => [explain(one), one.rule && `(${one.rule})`].filter(Boolean).join(" "));
  return (
    <CopyRequest
      text={m.denied.request(
        denied.map(({ action }) => m.action[action]).join(", "),
        subject.join(" / "),
        location.href,
        [...new Set(why), m.denied.policy(policyVersion)].join("\n"),
      )}
    />
  );
}
