import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { DestinationDocument, TestDestinationDocument } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { count } from "../format/format";
import { useSending } from "../forms/useSending";
import { Violations } from "../forms/Violations";
import { m } from "../messages";
import { deliveries as words } from "../messages/deliveries";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { DoneLine } from "../receipts/DoneLine";
import { type May, MayNot, useMay } from "../session/MayNot";
import css from "../styles/Form.module.css";
import page from "../styles/Page.module.css";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice, Skeleton } from "../ui/Page";
import { DeadDeliveries } from "./DeadDeliveries";
import { ReplayDialog, SwitchDialog, topicOf } from "./DestinationDialogs";
import type { Destination } from "./destination";
import { StateOf } from "./DestinationState";
import { type Order, Orders } from "./Orders";

const EVERY_MS = 5_000;

/** One destination: what it does now, how to steer it, its dead letters, and what people asked of it. */
export function DestinationView({ name }: { name: string }) {
  useDocumentStatus(name);
  const { answer, error, asOf, again } = useQuery(DestinationDocument, { name }, ({ destination }) => destination, {
    every: EVERY_MS,
  });
  const may = useMay("SET_ENGINE_MODE");
  if (error !== null) return <Problem error={error} retry={again} />;
  if (answer === undefined) return <Skeleton rows={6} label={m.sync.LOADING} />;
  if (answer === null)
    return (
      <Notice title={words.missing} heading>
        <p>
          <Link to="/deliveries">{words.toAll}</Link>
        </p>
      </Notice>
    );
  return (
    <div className={page.measure}>
      <PageHead title={name} asOf={asOf} refresh={again} repeated>
        <Link to="/deliveries">{words.toAll}</Link>
      </PageHead>
      <section className={css.section}>
        <div>
          <p>
            <StateOf destination={answer} />.
          </p>
          <Facts destination={answer} />
        </div>
        {answer.state !== "REMOVED" && <Steering destination={answer} may={may} done={again} />}
      </section>
      <DeadDeliveries destination={answer} may={may} done={again} />
      <Orders orders={answer.orders} />
    </div>
  );
}

function Facts({ destination: { kind, address, route, sent, failed } }: { destination: Destination }) {
  return (
    <>
      <p className={css.hint}>
        {kind !== null && words.kinds[kind]} {address} · {words.accepted} {count(sent)} · {words.failedTries}{" "}
        {count(failed)}
      </p>
      {route !== null && (
        <p className={css.hint}>
          {words.gets} {route.text}
        </p>
      )}
    </>
  );
}

/** The buttons that test, switch and replay, and the outcome of the newest test of this page. */
function Steering({ destination, may, done }: { destination: Destination; may: May; done: () => void }) {
  const [asked, setAsked] = useState<"switch" | "replay" | null>(null);
  const [tested, setTested] = useState<Order | null>(null);
  const { error, refusal, send } = useSending();
  const test = (): void => {
    setTested(null);
    send(async () => {
      const input = { requestId: `ui-${newId()}`, name: destination.name };
      setTested((await request(TestDestinationDocument, { input })).testDestination.order);
      done();
    });
  };
  const Dialog = asked === "replay" ? ReplayDialog : SwitchDialog;
  return (
    <div>
      <p className={css.actions}>
        <Button refusal={may.refusal ?? (refusal === null ? null : words.testing)} saidBy={may.saidBy} onClick={test}>
          {words.test}
        </Button>
        <Button refusal={may.refusal} saidBy={may.saidBy} onClick={() => setAsked("switch")}>
          {destination.state === "DISABLED" ? words.enable : words.disable}…
        </Button>
        <Button refusal={may.refusal} saidBy={may.saidBy} onClick={() => setAsked("replay")}>
          {words.replay}…
        </Button>
      </p>
      <div role="status">
        {refusal !== null && <p className={css.hint}>{words.testing}…</p>}
        {tested && <Tested order={tested} />}
      </div>
      <Violations error={error} />
      <MayNot of={may} />
      <DoneLine topic={topicOf(destination)} />
      {asked && <Dialog destination={destination} done={done} close={() => setAsked(null)} />}
    </div>
  );
}

function Tested({ order: { state, error } }: { order: Order }) {
  if (state === "DONE")
    return (
      <p className={css.tone} data-tone="good">
        {words.tested.DONE}
      </p>
    );
  if (state === "FAILED")
    return (
      <p className={css.tone} data-tone="bad">
        {words.tested.FAILED} {error}
      </p>
    );
  return <p>{words.tested.open}</p>;
}
