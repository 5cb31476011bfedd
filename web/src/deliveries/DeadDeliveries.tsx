import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { DeadDeliveriesDocument, type DeadDeliveriesQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useConnection } from "../api/useConnection";
import { shortId } from "../format/format";
import { m } from "../messages";
import { deliveries as words } from "../messages/deliveries";
import { List } from "../page/List";
import type { May } from "../session/MayNot";
import { useViewer } from "../session/viewer";
import css from "../styles/Form.module.css";
import prose from "../styles/Prose.module.css";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";
import { RedriveDialog } from "./DestinationDialogs";
import type { Destination } from "./destination";

type Letter = DeadDeliveriesQuery["deadDeliveries"]["edges"][number]["node"];

const EVERY_MS = 10_000;

/** The messages that the destination did not accept, with their content, and the way to send them again. */
export function DeadDeliveries({ destination, may, done }: { destination: Destination; may: May; done: () => void }) {
  const pages = useConnection(
    DeadDeliveriesDocument,
    { name: destination.name },
    ({ deadDeliveries }) => deadDeliveries,
    { every: EVERY_MS },
  );
  const [read, setRead] = useState<Letter | null>(null);
  const [redriven, setRedriven] = useState<{ letter: Letter | null } | null>(null);
  const columns: Column<Letter>[] = [
    { head: words.type, main: true, cell: ({ type }) => type },
    { head: words.at, cell: ({ at }) => <Time at={instant(at)} /> },
    { head: words.run, cell: (letter) => <RunOf letter={letter} /> },
    { head: words.tries, cell: ({ tries }) => tries },
    { head: words.error, text: true, cell: ({ error }) => error },
    {
      head: words.content,
      cell: (letter) => (
        <Button kind="quiet" label={words.contentOf(letter.messageId)} onClick={() => setRead(letter)}>
          {words.look}…
        </Button>
      ),
    },
    {
      head: words.act,
      cell: (letter) => (
        <Button
          label={words.redriveOf(letter.messageId)}
          refusal={may.refusal}
          saidBy={may.saidBy}
          onClick={() => setRedriven({ letter })}
        >
          {words.redrive}…
        </Button>
      ),
    },
  ];
  return (
    <section className={css.section}>
      <div className={css.head}>
        <h2>{words.dead}</h2>
        {pages.rows !== null && pages.rows.length > 0 && (
          <Button refusal={may.refusal} saidBy={may.saidBy} onClick={() => setRedriven({ letter: null })}>
            {words.redriveAll}…
          </Button>
        )}
      </div>
      {destination.droppedDeadLetters > 0 && <p>{words.dropped(destination.droppedDeadLetters)}</p>}
      {pages.rows?.length === 0 ? (
        <p className={css.hint}>{words.noDead}</p>
      ) : (
        <List label={words.dead} pages={pages} columns={columns} rowKey={({ id }) => id} empty={null} />
      )}
      {read && <Content letter={read} close={() => setRead(null)} />}
      {redriven && (
        <RedriveDialog
          destination={destination}
          letter={redriven.letter}
          done={() => {
            pages.refresh();
            done();
          }}
          close={() => setRedriven(null)}
        />
      )}
    </section>
  );
}

/** A link to the run, unless it is of another tenant. */
function RunOf({ letter: { runId, tenantId } }: { letter: Letter }) {
  const viewer = useViewer();
  if (runId === null) return words.installation;
  if (tenantId !== viewer.tenantId) return `${tenantId ?? ""} ${shortId(runId)}`;
  return (
    <Link to="/runs/$runId" params={{ runId }} search={{}} title={runId}>
      {shortId(runId)}
    </Link>
  );
}

function Content({ letter, close }: { letter: Letter; close: () => void }) {
  return (
    <Dialog title={words.contentOf(letter.messageId)} onClose={close} wide>
      <div className={css.stack}>
        <pre className={`${prose.said} ${css.payload}`} tabIndex={0} aria-label={words.content}>
          {JSON.stringify(letter.message, null, 2)}
        </pre>
        <div className={css.buttons}>
          <Button kind="primary" onClick={close}>
            {m.menu.close}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
