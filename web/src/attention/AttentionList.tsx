import { Link } from "@tanstack/react-router";
import { BadgeCheck, ClockAlert, OctagonX, UserCheck } from "lucide-react";
import type { AttentionKind } from "../api/gen/graphql";
import { instant } from "../api/model";
import { shortId, ticking } from "../format/format";
import { m } from "../messages";
import { Where } from "../ui/Env";
import type { AttentionItem } from "./state";
import css from "./Attention.module.css";

const ICONS = { FAILED_WAITING: OctagonX, APPROVAL: BadgeCheck, MANUAL_TASK: UserCheck, LATE: ClockAlert } as const;
const SOON_MS = 10 * 60_000;
const LAST_MS = 2 * 60_000;

interface AttentionListProps {
  items: readonly AttentionItem[];
  /** The server's time. */
  now: number;
}

/** The items in the order of the server: the one with the least time left first. */
export function AttentionList({ items, now }: AttentionListProps) {
  return (
    <ul className={css.list}>
      {items.map((item) => (
        <Item key={`${item.kind} ${item.runId} ${item.stepId ?? ""}`} item={item} now={now} />
      ))}
    </ul>
  );
}

function Item({ item, now }: { item: AttentionItem; now: number }) {
  const Icon = ICONS[item.kind];
  const left = item.deadline === null ? null : instant(item.deadline) - now;
  const urgency = left === null || left > SOON_MS ? undefined : left > LAST_MS ? "soon" : "last";
  const age = ticking(Math.max(0, now - instant(item.since)));
  const facts = [
    item.approvalsRequired === null ? null : m.attention.approvals(item.approvals ?? 0, item.approvalsRequired),
    item.heldSteps > 0 ? m.attention.held(item.heldSteps) : null,
    item.kind === "LATE" ? m.attention.running(age) : m.attention.waiting(age),
  ].filter((fact) => fact !== null);
  return (
    <li className={css.item} data-kind={item.kind} data-run={item.runId} data-urgency={urgency}>
      <div className={css.what}>
        <p className={css.name}>
          <Icon size={16} aria-hidden="true" className={css.icon} />
          <span className={css.kind}>{m.attention.kinds[item.kind]}</span>
          <Link
            to="/runs/$runId"
            params={{ runId: item.runId }}
            search={item.stepId === null ? {} : { step: item.stepId }}
            className={css.link}
            title={item.runId}
          >
            {item.planId}@{item.planVersion} <code>{shortId(item.runId)}</code>
          </Link>
          <Where project={item.projectId} environment={item.environmentId} />
        </p>
        <Cause item={item} />
        <p className={css.facts}>{facts.join(" · ")}</p>
        <p className={css.facts}>
          {item.actions.length > 0
            ? m.attention.youCan(item.actions.map((action) => m.action[action]).join(", "))
            : m.attention.notYours}
        </p>
      </div>
      <p className={css.clock}>
        <strong className={css.left}>{clock(item, left, now)}</strong>
        {(left !== null || item.kind === "LATE") && <span>{m.attention.ends[item.kind]}</span>}
      </p>
    </li>
  );
}

function Cause({ item }: { item: AttentionItem }) {
  if (item.code !== null && item.stepId !== null) {
    return (
      <p className={css.cause} title={`${item.stepId}\n${item.message ?? ""}`}>
        {m.attention.failed(item.stepName ?? item.stepId, item.code)}
        {item.message !== null && <span className={css.message}> {item.message}</span>}
      </p>
    );
  }
  return item.stepId === null ? null : (
    <p className={css.cause} title={item.stepId}>
      {item.stepName ?? item.stepId}
    </p>
  );
}

function clock(item: { kind: AttentionKind; expectedBy: string | null }, left: number | null, now: number): string {
  if (left !== null) return left <= 0 ? m.attention.over : m.attention.left(ticking(left));
  if (item.expectedBy !== null) return m.attention.lateBy(ticking(Math.max(0, now - instant(item.expectedBy))));
  return m.attention.noDeadline;
}
