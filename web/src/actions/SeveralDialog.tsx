import { type FormEvent, useState } from "react";
import { RunDiff } from "../history/RunDiff";
import { m } from "../messages";
import { several as words } from "../messages/several";
import { useHeader } from "../runstate/context";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { Env } from "../ui/Env";
import { count, ticking } from "../format/format";
import { useTick } from "../ui/Time";
import css from "../styles/Confirm.module.css";
import { type Part, type Several, partState, TYPED_ABOVE } from "./several";
import { sendingKeys } from "./sendingKeys";
import { SeveralList } from "./SeveralList";
import { useRefusalOfView } from "./useRefusal";
import { useSeveral } from "./useSeveral";

const MOVED_NAMED = 6;

interface SeveralDialogProps {
  action: Several;
  runId: string;
  stepIds: readonly string[];
  onClose: () => void;
}

/**
 * Previews one action on several steps, takes one reason, asks to type the number above ten, and shows each receipt.
 */
export function SeveralDialog({ action, runId, stepIds, onClose }: SeveralDialogProps) {
  const header = useHeader();
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [most, setMost] = useState(0);
  const { parts, force, turnForce, sending, waitUntil, review, submit } = useSeveral(action, runId, stepIds);
  const refused = useRefusalOfView(action);
  useTick(1_000, waitUntil > 0);
  const of = (...states: ReturnType<typeof partState>[]): Part[] =>
    parts.filter((part) => states.includes(partState(part)));
  const ready = of("ready");
  const again = of("changed", "failed");
  const sent = of("sent");
  // The largest number counts, so that the confirmation does not become weaker while it is read.
  if (ready.length > most) setMost(ready.length);
  const strong = most > TYPED_ABOVE;
  const asking = of("asking").length;
  const over = !sending && sent.length > 0 && ready.length === 0 && again.length === 0;
  const word = String(ready.length);
  const offered =
    !sending &&
    asking === 0 &&
    again.length === 0 &&
    ready.length > 0 &&
    refused === null &&
    (!strong || typed === word);
  const denied = force || parts.some(({ preview }) => preview?.code === "RETRY_POLICY_DENIED");
  const moved = parts.filter(({ failure, receipt }) => receipt === null && failure?.code === "RUN_MOVED");

  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    if (offered) submit(ready, reason.trim());
  };
  if (!header) return null;
  const label = words.verbs[action](ready.length);

  return (
    <Dialog
      alert={strong}
      onClose={onClose}
      title={
        <>
          {m.confirm.title(words.verbs[action](parts.length), `of ${header.plan.planId}`)}{" "}
          <Env id={header.environmentId} />
        </>
      }
    >
      <form onSubmit={onSubmit} onKeyDown={sendingKeys(strong)}>
        <p role="status" data-testid="several">
          {sent.length > 0 || sending
            ? words.sent(sent.length, parts.length)
            : asking > 0
              ? m.confirm.asking
              : words.would(ready.length, parts.length)}
        </p>
        <SeveralList parts={parts} />
        {moved.length > 0 && (
          <div className={css.moved} data-testid="moved">
            <p>{words.moved(moved.length)}</p>
            <RunDiff
              runId={runId}
              from={Math.min(...moved.map(({ at }) => at))}
              to={Math.max(header.runSeq, ...moved.map(({ failure }) => failure?.currentSeq ?? 0))}
              most={MOVED_NAMED}
            />
          </div>
        )}
        {!over && (
          <>
            {denied && action === "RETRY_STEP" && (
              <label className={css.check}>
                <input
                  type="checkbox"
                  checked={force}
                  disabled={sending}
                  onChange={(event) => turnForce(event.target.checked)}
                />{" "}
                {words.force}
              </label>
            )}
            <label className={css.field}>
              <span>
                {words.reason} <span className={css.hint}>({m.confirm.reasonHint})</span>
              </span>
              <input
                value={reason}
                maxLength={1000}
                readOnly={sending}
                onChange={(event) => setReason(event.target.value)}
              />
            </label>
            {strong && !sending && (
              <label className={css.field}>
                <span>{words.typeCount(word)}</span>
                <input
                  className={css.mono}
                  inputMode="numeric"
                  value={typed}
                  autoComplete="off"
                  onChange={(event) => setTyped(event.target.value)}
                />
              </label>
            )}
          </>
        )}
        <div role="alert" className={css.problem}>
          {refused !== null && !over && (
            <p>
              {m.confirm.notNow} {refused}
            </p>
          )}
          {again.length > 0 && !sending && <p>{words.again(again.length)}</p>}
          {waitUntil > 0 && <p>{words.wait(ticking(waitUntil - Date.now() + 1_000))}</p>}
        </div>
        <div className={css.buttons}>
          <Button back onClick={onClose}>
            {sending ? words.stop : over ? words.close : m.confirm.back}
          </Button>
          {again.length > 0 && !sending ? (
            <Button
              kind="primary"
              refusal={again.some(({ preview }) => preview === null) ? m.confirm.asking : null}
              onClick={review}
            >
              {m.confirm.reviewAgain}
            </Button>
          ) : (
            !over && (
              <button type="submit" className={css.send} data-danger={strong || undefined} disabled={!offered}>
                {sending ? words.sending(count(sent.length)) : label}
              </button>
            )
          )}
        </div>
      </form>
    </Dialog>
  );
}
