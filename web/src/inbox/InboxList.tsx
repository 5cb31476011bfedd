import { Link } from "@tanstack/react-router";
import { BadgeCheck, UserCheck } from "lucide-react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Env } from "../ui/Env";
import { ApprovalCount, RunRequest } from "../actions/RunRequest";
import { shortId, ticking } from "../format/format";
import { Time, useTick } from "../ui/Time";
import css from "./Inbox.module.css";
import type { Item } from "./items";

interface InboxListProps {
  items: readonly Item[];
  /** Opens the dialog for a yes or for a no. */
  decide: (item: Item, yes: boolean) => void;
}

/** How long an item has waited. */
function Waited({ since }: { since: number }) {
  useTick(1_000);
  return <span>{m.inbox.waitingFor(ticking(Math.max(0, Date.now() - since)))}</span>;
}

/** A card for each waiting item: its name, place and age, and the buttons, or why the viewer may not decide. */
export function InboxList({ items, decide }: InboxListProps) {
  return (
    <ul className={css.list}>
      {items.map((item) => (
        <li key={item.key} className={css.item} data-run={item.runId} data-item={item.key} data-kind={item.kind}>
          <div className={css.what}>
            <p className={css.name}>
              {item.kind === "approval" ? (
                <BadgeCheck size={16} aria-hidden="true" />
              ) : (
                <UserCheck size={16} aria-hidden="true" />
              )}
              <span>{m.inbox.kinds[item.kind]}</span>
              <Link
                to="/runs/$runId"
                params={{ runId: item.runId }}
                search={item.stepId === null ? {} : { step: item.stepId }}
                title={item.runId}
              >
                {item.name} <code>{shortId(item.runId)}</code>
              </Link>
            </p>
            <p className={css.where}>
              {item.projectId} / <Env id={item.environmentId} /> {item.by !== null && m.inbox.requestedBy(item.by)} ·{" "}
              <Waited since={item.since} />
              {item.until !== null && (
                <>
                  {" "}
                  · {m.inbox.timesOut} <Time at={item.until} format="full" />
                </>
              )}
            </p>
            {item.approval?.approval && (
              <p className={css.approvals}>
                <ApprovalCount approval={item.approval.approval} />
              </p>
            )}
            {item.approval && <RunRequest runId={item.runId} />}
            {item.instructions !== null && <p className={css.instructions}>{item.instructions}</p>}
            {item.stuck && item.refusal === null && <p className={css.refusal}>{m.inbox.stuck}</p>}
            {item.refusal !== null && <p className={css.refusal}>{item.refusal}</p>}
          </div>
          <div className={css.buttons}>
            <Button
              kind="primary"
              refusal={item.refusal}
              label={m.inbox.named(m.inbox.yes[item.kind], item.stepId ?? shortId(item.runId))}
              onClick={() => decide(item, true)}
            >
              {m.inbox.yes[item.kind]}…
            </Button>
            <Button
              refusal={item.mayReject ? null : item.refusal}
              label={m.inbox.named(m.inbox.no[item.kind], item.stepId ?? shortId(item.runId))}
              onClick={() => decide(item, false)}
            >
              {m.inbox.no[item.kind]}…
            </Button>
          </div>
        </li>
      ))}
    </ul>
  );
}
