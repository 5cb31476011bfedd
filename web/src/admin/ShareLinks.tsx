// The setting of share links: whether people can show a run to somebody without an account.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { newId } from "../api/newId";
import { SetShareLinksDocument } from "../api/gen/graphql";
import { request } from "../api/request";
import { ReasonDialog } from "../forms/ReasonDialog";
import { audit as auditWords } from "../messages/audit";
import { service as serviceWords } from "../messages/service";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { MayNot, useMay } from "../session/MayNot";
import { useCan } from "../session/useCan";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { NumberField } from "./Rows";

const DAY_HOURS = 24;
const MOST_HOURS = 168;

/** The change that the dialog confirms. */
interface Wanted {
  what: "permit" | "revoke" | "forbid";
  requestId: string;
}

const WORDS = {
  permit: { title: serviceWords.sharePermit, means: serviceWords.sharePermitMeans },
  revoke: { title: serviceWords.shareRevoke, means: serviceWords.shareRevokeMeans },
  forbid: { title: serviceWords.shareForbid, means: serviceWords.shareForbidMeans },
} as const;

export function ShareLinks({ hours: now, refresh }: { hours: number; refresh: () => void }) {
  const may = useMay("SET_POLICY");
  const mayReadAudit = useCan("READ_AUDIT") === null;
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const [hours, setHours] = useState<number | null>(null);
  const open = (what: Wanted["what"]) => (): void => {
    setHours(now === 0 ? DAY_HOURS : now);
    setWanted({ what, requestId: `ui-${newId()}` });
  };
  const act = async (reason: string): Promise<void> => {
    if (!wanted) return;
    const { what, requestId } = wanted;
    const chosen = what === "forbid" ? 0 : what === "revoke" ? now : (hours ?? 0);
    const { setShareLinks } = await request(SetShareLinksDocument, { input: { requestId, hours: chosen, reason } });
    recordDone({
      topic: "share",
      what: what === "revoke" ? auditWords.did.revokedLinks(chosen) : auditWords.did.links(chosen),
      effect: { page: "service" },
      change: setShareLinks.change,
    });
    refresh();
  };
  const permit = now === 0 ? serviceWords.sharePermit : serviceWords.shareChange;
  return (
    <section className={css.section}>
      <h2>{serviceWords.share}</h2>
      <p>{now === 0 ? serviceWords.shareOff : serviceWords.shareOn(now)}</p>
      <p className={css.hint}>
        {serviceWords.shareCount}{" "}
        {mayReadAudit && (
          <Link to="/audit" search={{ action: "share run" }}>
            {serviceWords.shareMade}
          </Link>
        )}
      </p>
      <div className={css.row}>
        <Button refusal={may.refusal} saidBy={may.saidBy} onClick={open("permit")}>
          {permit}…
        </Button>
        {now > 0 && (
          <>
            <Button refusal={may.refusal} saidBy={may.saidBy} onClick={open("revoke")}>
              {serviceWords.shareRevoke}…
            </Button>
            <Button refusal={may.refusal} saidBy={may.saidBy} onClick={open("forbid")}>
              {serviceWords.shareForbid}…
            </Button>
          </>
        )}
      </div>
      <MayNot of={may} />
      <DoneLine topic="share" />
      {wanted && (
        <ReasonDialog
          title={wanted.what === "permit" ? permit : WORDS[wanted.what].title}
          verb={wanted.what === "permit" ? permit : WORDS[wanted.what].title}
          reason="required"
          danger={wanted.what !== "permit"}
          act={act}
          onClose={() => setWanted(null)}
        >
          <p>{WORDS[wanted.what].means}</p>
          {wanted.what === "permit" && (
            <NumberField label={serviceWords.shareHours} min={1} max={MOST_HOURS} value={hours} set={setHours} />
          )}
        </ReasonDialog>
      )}
    </section>
  );
}
