import { Link } from "@tanstack/react-router";
import { BadgeCheck, ClockAlert, OctagonX, UserCheck } from "lucide-react";
import { Suspense, useState } from "react";
import type { Sendable } from "../actions/intent";
import type { Answer } from "../actions/send";
import type { AttentionKind } from "../api/gen/graphql";
import { instant } from "../api/model";
import { shortId, ticking } from "../format/format";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { isProduction, Where } from "../ui/Env";
import { lazyPart } from "../ui/lazyPart";
import css from "./Attention.module.css";
import { Sent, type SentAction } from "./Sent";
import type { AttentionItem } from "./state";

const RunDialog = lazyPart(() => import("../actions/RunDialog").then((part) => part.RunDialog));

const ICONS = { FAILED_WAITING: OctagonX, APPROVAL: BadgeCheck, MANUAL_TASK: UserCheck, LATE: ClockAlert } as const;
const SOON_MS = 10 * 60_000;
const LAST_MS = 2 * 60_000;
/** More would push the runs that failed off the first screen. */
const SHOWN = 4;
const OFFERED = ["RETRY_STEP", "SKIP_STEP", "APPROVE", "COMPLETE_MANUAL_STEP", "PAUSE", "CANCEL"] as const;
const OF_STEP: readonly Sendable[] = ["RETRY_STEP", "SKIP_STEP", "COMPLETE_MANUAL_STEP"];

type Offered = (typeof OFFERED)[number];

interface AttentionListProps {
  items: readonly AttentionItem[];
  /** The server's time. */
  now: number;
}

function keyOf({ kind, runId, stepId }: AttentionItem): string {
  return `${kind} ${runId} ${stepId ?? ""}`;
}

function leftOf({ deadline }: AttentionItem, now: number): number | null {
  return deadline === null ? null : instant(deadline) - now;
}

/** The rank of what the viewer can do nothing about, and nobody needs to hear of at once. */
const OTHERS = 4;

/**
 * What the viewer can end comes first, then what they can do something else about. Of what only others can do, what ends
 * soon comes first, because the viewer may have to wake somebody, and then what nobody can end.
 */
function rank(item: AttentionItem, now: number): number {
  const { kind, actions, whoCould, stuck } = item;
  if (actions.includes(m.attention.answers[kind].action)) return 0;
  if (actions.length > 0) return 1;
  const left = leftOf(item, now);
  if (left !== null && left <= SOON_MS) return 2;
  return whoCould.length === 0 || stuck ? 3 : OTHERS;
}

/** Ten minutes count as one moment while there is more time than that. */
function moment(item: AttentionItem, now: number): number {
  const left = leftOf(item, now);
  return left === null ? Number.POSITIVE_INFINITY : left <= SOON_MS ? left : Math.ceil(left / SOON_MS) * SOON_MS;
}

/** Of what ends at about the same time, production first, and then what holds up the most steps. */
function weigh(a: AttentionItem, b: AttentionItem, now: number): number {
  const [at, bt] = [moment(a, now), moment(b, now)];
  if (at !== bt) return at < bt ? -1 : 1;
  return (
    Number(isProduction(b.environmentId)) - Number(isProduction(a.environmentId)) ||
    (b.heldSteps ?? 0) - (a.heldSteps ?? 0)
  );
}

/**
 * What the viewer can act on first, then the least time left, then the largest loss. The buttons open the dialog here. It
 * stays mounted without items: a dialog may be open, and a retried step may fail again.
 */
export function AttentionList({ items, now }: AttentionListProps) {
  const [all, setAll] = useState(false);
  const [asking, setAsking] = useState<{ item: AttentionItem; action: Offered } | null>(null);
  const [sent, setSent] = useState<ReadonlyMap<string, SentAction>>(new Map());
  const done = (item: AttentionItem, action: Offered, answer: Answer): void =>
    setSent((before) =>
      new Map(before).set(keyOf(item), {
        action,
        signalId: answer.signal?.signalId ?? null,
        decision: answer.decision ?? null,
        attempt: item.logicalAttemptId,
      }),
    );
  const ordered = items.toSorted((a, b) => rank(a, now) - rank(b, now) || weigh(a, b, now));
  const shown = ordered.filter((item) => rank(item, now) < OTHERS).slice(0, SHOWN);
  const hidden = ordered.filter((item) => !shown.includes(item));
  const onlyOthers = hidden.every((item) => rank(item, now) === OTHERS);
  const who = [...new Set(hidden.flatMap(({ whoCould }) => whoCould))];
  const ends = Math.min(...hidden.map((item) => leftOf(item, now) ?? Number.POSITIVE_INFINITY));
  return (
    <>
      {items.length > 0 && (
        <ul className={css.list} data-bare={items.every(({ actions }) => actions.length === 0) || undefined}>
          {(all ? ordered : shown).map((item) => (
            <Item
              key={keyOf(item)}
              item={item}
              now={now}
              sent={sent.get(keyOf(item)) ?? null}
              ask={(action) => setAsking({ item, action })}
            />
          ))}
        </ul>
      )}
      {hidden.length > 0 && (
        <p className={css.rest} data-urgency={all ? undefined : urgencyOf(ends)}>
          <Button kind="quiet" expanded={all} onClick={() => setAll(!all)}>
            {all
              ? m.attention.fewer
              : `${
                  onlyOthers
                    ? m.attention.othersOnly(hidden.length, who)
                    : m.attention.others(hidden.length, kindsOf(hidden))
                }${Number.isFinite(ends) ? m.attention.firstEnds(ticking(Math.max(0, ends))) : ""}`}
          </Button>
        </p>
      )}
      <Suspense>
        {asking && (
          <RunDialog
            action={asking.action}
            runId={asking.item.runId}
            stepId={OF_STEP.includes(asking.action) ? asking.item.stepId : null}
            logicalAttemptId={OF_STEP.includes(asking.action) ? asking.item.logicalAttemptId : null}
            title={m.attention.named(m.action[asking.action], nameOf(asking.item))}
            done={(answer) => done(asking.item, asking.action, answer)}
            close={() => setAsking(null)}
          />
        )}
      </Suspense>
    </>
  );
}

function nameOf({ planId, runId, stepId }: AttentionItem): string {
  return `${planId} ${shortId(runId)}${stepId === null ? "" : `, ${stepId}`}`;
}

/** How many of each kind there are, in the order of the kinds. */
function kindsOf(items: readonly AttentionItem[]): string {
  const kinds = Object.keys(ICONS) as AttentionKind[];
  return kinds
    .map((kind) => [kind, items.filter((item) => item.kind === kind).length] as const)
    .filter(([, n]) => n > 0)
    .map(([kind, n]) => m.attention.counted[kind](n))
    .join(", ");
}

interface ItemProps {
  item: AttentionItem;
  now: number;
  sent: SentAction | null;
  ask: (action: Offered) => void;
}

function Item({ item, now, sent, ask }: ItemProps) {
  const Icon = ICONS[item.kind];
  const left = leftOf(item, now);
  return (
    <li
      className={css.item}
      data-kind={item.kind}
      data-run={item.runId}
      data-urgency={left === null ? undefined : urgencyOf(left)}
    >
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
        <p className={css.facts}>{factsOf(item, now).join(" · ")}</p>
        <Others item={item} />
        {sent && <Sent runId={item.runId} attempt={item.logicalAttemptId} sent={sent} />}
      </div>
      <p className={css.clock}>
        <strong className={css.left} data-none={(left === null && item.expectedBy === null) || undefined}>
          {clock(item, left, now)}
        </strong>
        {(left !== null || item.kind === "LATE") && (
          <span>{item.kind === "LATE" && item.code !== null ? m.attention.missed : m.attention.ends[item.kind]}</span>
        )}
      </p>
      <div className={css.buttons}>
        {OFFERED.filter((action) => item.actions.includes(action)).map((action, i) => (
          <Button
            key={action}
            kind={action === "CANCEL" ? "danger" : i === 0 && item.kind !== "LATE" ? "primary" : "plain"}
            label={m.attention.named(`${m.attention.short[action]}…`, nameOf(item))}
            onClick={() => ask(action)}
          >
            {m.attention.short[action]}…
          </Button>
        ))}
      </div>
    </li>
  );
}

function urgencyOf(left: number): "soon" | "last" | undefined {
  return left > SOON_MS ? undefined : left > LAST_MS ? "soon" : "last";
}

function factsOf(item: AttentionItem, now: number): string[] {
  const age = ticking(Math.max(0, now - instant(item.since)));
  return [
    item.approvalsRequired === null ? null : m.attention.approvals(item.approvals ?? 0, item.approvalsRequired),
    item.failedSteps > 1 ? m.attention.failedSteps(item.failedSteps) : null,
    item.heldSteps > 0 ? m.attention.held(item.heldSteps, item.blockedSteps) : null,
    item.kind === "LATE" ? m.attention.running(age) : m.attention.waiting(age),
  ].filter((fact) => fact !== null);
}

/** Names who can do what the viewer cannot. */
function Others({ item: { kind, actions, whoCould, stuck } }: { item: AttentionItem }) {
  const answered = actions.includes(m.attention.answers[kind].action);
  if (stuck)
    return (
      <p className={css.others} data-nobody>
        {m.attention.stuck(whoCould, answered)}
      </p>
    );
  if (answered) return null;
  const [first] = whoCould;
  return (
    <p className={css.others} data-nobody={first === undefined || undefined}>
      {first === undefined
        ? m.attention.nobody[kind]
        : actions.length > 0
          ? m.attention.ask(m.attention.answers[kind].verb, whoCould)
          : m.attention.waitsFor(whoCould)}
    </p>
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
