import { useState } from "react";
import { ShareLinksDocument, ShareRunDocument } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { useSending } from "../forms/useSending";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { copyLink } from "../ui/copyLink";
import { Time } from "../ui/Time";
import account from "./Account.module.css";

/** Makes a link that shows the status of a run without sign-in, where the tenant permits it, and copies it. */
export function ShareStatus({ runId }: { runId: string }) {
  const { answer: hours } = useQuery(ShareLinksDocument, {}, ({ service }) => service.shareLinkHours);
  const { send, refusal, error } = useSending();
  const [made, setMade] = useState<{ url: string; expiresAt: string } | null>(null);
  if (!hours) return null;
  const share = async (): Promise<void> => {
    const { shareRun } = await request(ShareRunDocument, { input: { runId, requestId: newId() } });
    const url = location.origin + shareRun.path;
    setMade({ url, expiresAt: shareRun.expiresAt });
    await copyLink(url);
  };
  return (
    <>
      <p>
        <Button refusal={refusal} onClick={() => send(share)}>
          {m.share.status}
        </Button>
      </p>
      <p className={account.roles}>{m.share.reveals(hours)}</p>
      {error && <p role="alert">{error.message}</p>}
      {made && (
        <p>
          <a href={made.url}>{made.url}</a> {m.share.until} <Time at={Date.parse(made.expiresAt)} />
        </p>
      )}
    </>
  );
}
