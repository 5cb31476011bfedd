import { Link2 } from "lucide-react";
import { Suspense, useId, useState } from "react";
import { CopyAs } from "../copyas/CopyAs";
import { type CopySubject, offeredSubject } from "../copyas/offer";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { copyLink, useCopied } from "../ui/copyLink";
import account from "./Account.module.css";
import css from "./Shell.module.css";
import { lazyPart } from "../ui/lazyPart";

const ShareStatus = lazyPart(() => import("./ShareStatus").then((part) => part.ShareStatus));

/** Copies the address, which is the whole view, or the request of the page for a terminal or a program. */
export function Share() {
  const id = useId();
  const [subject, setSubject] = useState<CopySubject | null>(null);
  return (
    <>
      <button
        type="button"
        className={account.who}
        popoverTarget={id}
        aria-label={m.share.button}
        onClick={() => setSubject(offeredSubject())}
      >
        <Link2 size={16} aria-hidden="true" /> <span className={css.hotkey}>{m.share.button}</span>
      </button>
      <div id={id} popover="auto" className={account.panel}>
        <p>
          <Button onClick={() => void copyLink(location.href)}>{m.share.link}</Button>
        </p>
        {subject?.of === "run" && (
          <Suspense>
            <ShareStatus runId={subject.runId} />
          </Suspense>
        )}
        {subject && <CopyAs subject={subject} />}
      </div>
    </>
  );
}

/** Says that a link was copied, by a button or by a key. */
export function CopiedNotice() {
  const copied = useCopied();
  return (
    <p role="status" className={css.copied} data-empty={copied === null || undefined}>
      {copied !== null && m.share[copied]}
    </p>
  );
}
