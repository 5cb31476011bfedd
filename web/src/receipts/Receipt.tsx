import { CheckCheck, CircleSlash, Equal, type LucideIcon, PackageCheck, Send, ShieldX } from "lucide-react";
import { Link } from "@tanstack/react-router";
import type { Signal } from "../api/model";
import { m } from "../messages";
import { duration, shortId } from "../format/format";
import { StepTitle } from "../runstate/stepTitle";
import type { Tone } from "../ui/tones";
import { Time } from "../ui/Time";
import css from "./Receipt.module.css";
import { movingReason } from "./receipts";

interface Stage {
  icon: LucideIcon;
  tone: Tone;
  text: string;
}

function took(signal: Signal, at: number | null): string {
  return at === null ? "" : ` ${m.receipt.after(duration(at - signal.receivedAt))}`;
}

/** The stages that a receipt has reached; the last one is the present. */
function stages(signal: Signal): Stage[] {
  if (signal.decision === "REJECTED") {
    const why = signal.rejection ? `: ${signal.rejection.message || signal.rejection.code}` : "";
    return [{ icon: ShieldX, tone: "failed", text: `${m.receipt.REJECTED}${why}` }];
  }
  const list: Stage[] = [{ icon: Send, tone: "running", text: m.receipt.ACCEPTED }];
  if (signal.deliveredAt !== null || signal.application === "DELIVERED") {
    list.push({
      icon: PackageCheck,
      tone: "running",
      text: `${m.receipt.DELIVERED}${took(signal, signal.deliveredAt)}`,
    });
  }
  const seq = signal.appliedSeq === null ? "" : ` ${m.receipt.atSeq(signal.appliedSeq)}`;
  const why = signal.applicationReason
    ? `: ${signal.applicationReason === "ALREADY_IN_STATE" ? m.receipt.already : signal.applicationReason}`
    : "";
  if (signal.application === "APPLIED")
    list.push({
      icon: CheckCheck,
      tone: "success",
      text: `${m.receipt.APPLIED}${seq}${took(signal, signal.appliedAt)}${why}`,
    });
  if (signal.application === "NOOP") list.push({ icon: Equal, tone: "skipped", text: `${m.receipt.NOOP}${why}` });
  if (signal.application === "NOT_APPLIED")
    list.push({ icon: CircleSlash, tone: "failed", text: `${m.receipt.NOT_APPLIED}${why}` });
  return list;
}

interface ReceiptStagesProps {
  signal: Signal;
  /** It has not moved for 5 s, or for 30 s. */
  slow?: boolean;
  stuck?: boolean;
  /** The effect of the signal failed, so the receipt must not look like a success. */
  failed?: boolean;
  /** Leaves out what the place says itself. */
  brief?: boolean;
}

export function ReceiptStages({ signal, slow, stuck, failed = false, brief = false }: ReceiptStagesProps) {
  const list = stages(signal);
  const moving =
    signal.decision === "ACCEPTED" && (signal.application === "PENDING" || signal.application === "DELIVERED");
  return (
    <div className={css.stages}>
      {list.map(({ icon: Icon, tone, text }) => (
        <span key={text} className={css.stage} data-tone={failed && tone === "success" ? "skipped" : tone}>
          <Icon size={14} aria-hidden="true" /> {text}
        </span>
      ))}
      {moving && (
        <span className={css.note}>{movingReason(signal, slow) ?? (slow ? m.receipt.slow : m.receipt.applying)}</span>
      )}
      {moving && stuck && <Link to="/health">{m.receipt.health}</Link>}
      {!brief && signal.type === "PAUSE" && signal.quiescentSeq !== null && (
        <span className={css.note}>{m.receipt.quiescent(signal.quiescentSeq)}</span>
      )}
    </div>
  );
}

interface ReceiptTitleProps {
  signal: Signal;
  /** The page is that of the run. */
  here?: boolean;
  /** The names of the plan and of the step, where the page does not know them. */
  known?: { planId: string; stepName: string | null } | null;
}

/** The action of a receipt, its time, and its run unless the page is `here`. */
export function ReceiptTitle({ signal, here = false, known = null }: ReceiptTitleProps) {
  return (
    <span className={css.title}>
      <strong>{signal.type === "UNKNOWN" ? signal.typeRaw : m.action[signal.type]}</strong>{" "}
      {signal.stepId &&
        (here ? (
          <StepTitle stepId={signal.stepId} />
        ) : (
          <span title={signal.stepId}>{known?.stepName ?? signal.stepId}</span>
        ))}{" "}
      {!here && (
        <Link to="/runs/$runId" params={{ runId: signal.runId }} title={signal.runId}>
          {known && `${known.planId} `}
          {shortId(signal.runId)}
        </Link>
      )}{" "}
      <span className={css.note}>
        <Time at={signal.receivedAt} format="clock" />
      </span>
    </span>
  );
}
