import { Check, CircleHelp, type LucideIcon, ShieldX, TriangleAlert } from "lucide-react";
import { m } from "../messages";
import { several } from "../messages/several";
import { StepTitle } from "../runstate/stepTitle";
import { useReceipts } from "../receipts/context";
import { ReceiptStages } from "../receipts/Receipt";
import css from "./SeveralList.module.css";
import { type Part, type PartState, partState } from "./several";

const ICONS: Record<Exclude<PartState, "sent">, LucideIcon> = {
  asking: CircleHelp,
  unasked: CircleHelp,
  ready: Check,
  refused: ShieldX,
  changed: TriangleAlert,
  failed: TriangleAlert,
};

/** One line for each step: its preview, then its receipt. */
export function SeveralList({ parts }: { parts: readonly Part[] }) {
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
    <ul className={css.list} aria-label={several.list} tabIndex={0}>
      {parts.map((part) => (
        <Line key={part.stepId} part={part} />
      ))}
    </ul>
  );
}

function Line({ part }: { part: Part }) {
  const state = partState(part);
  const { stepId, preview, unasked, receipt, failure } = part;
  const now = useReceipts().find(({ signalId }) => signalId === receipt?.signalId) ?? receipt;
  if (state === "sent" && now !== null) {
    return (
      <li className={css.line} data-step={stepId} data-state="sent">
        <strong>
          <StepTitle stepId={stepId} />
        </strong>{" "}
        <ReceiptStages signal={now} />
      </li>
    );
  }
  const shown = state === "sent" ? "asking" : state;
  const Icon = ICONS[shown];
  const words = failure ?? unasked;
  return (
    <li className={css.line} data-step={stepId} data-state={shown}>
      <span className={css.outcome}>
        <Icon size={14} aria-hidden="true" /> {several.states[shown]}
      </span>{" "}
      <strong>
        <StepTitle stepId={stepId} />
      </strong>{" "}
      {words && (
        <>
          {words.message} <code>{words.code}</code>{" "}
        </>
      )}
      {preview && (
        <>
          {preview.reason ?? m.confirm.outcome[preview.outcome]}{" "}
          {preview.outcome !== "APPLY" && preview.code && <code>{preview.code}</code>} {preview.warnings.join(" ")}
        </>
      )}
    </li>
  );
}
