// The legal holds of the tenant: what is open, placing one and lifting one.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import {
  type HoldKind,
  LegalHoldsDocument,
  type LegalHoldsQuery,
  LiftHoldDocument,
  PlaceHoldDocument,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { ReasonDialog } from "../forms/ReasonDialog";
import { retention as words } from "../messages/retention";
import { List } from "../page/List";
import { recordDone } from "../session/done";
import { MayNot, useMay } from "../session/MayNot";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";
import { SelectField, TextField } from "./Rows";

type Hold = LegalHoldsQuery["legalHolds"]["edges"][number]["node"];

const KINDS = Object.entries(words.kinds) as [HoldKind, string][];

/** A hold to place, with the key that makes sending it again safe. */
interface Wanted {
  requestId: string;
  kind: HoldKind;
  subject: string;
}

function Covered({ hold: { kind, subject } }: { hold: Hold }) {
  const text = words.covered(kind, subject);
  if (kind !== "RUN") return text;
  return (
    <Link to="/runs/$runId" params={{ runId: subject }}>
      {text}
    </Link>
  );
}

export function Holds() {
  const holds = useConnection(LegalHoldsDocument, { open: true }, (result) => result.legalHolds, { size: 50 });
  const may = useMay("READ_AUDIT");
  const [placing, setPlacing] = useState<Wanted | null>(null);
  const [lifting, setLifting] = useState<{ hold: Hold; requestId: string } | null>(null);
  const columns: Column<Hold>[] = [
    { head: words.covers, main: true, cell: (hold) => <Covered hold={hold} /> },
    { head: words.why, text: true, cell: ({ reason }) => reason },
    { head: words.since, cell: ({ placedAt }) => <Time at={instant(placedAt)} format="full" /> },
    { head: words.by, cell: ({ placedBy }) => placedBy },
    {
      head: words.lift,
      cell: (hold) => (
        <Button
          refusal={may.refusal}
          saidBy={may.saidBy}
          label={words.liftOne(hold.subject)}
          onClick={() => setLifting({ hold, requestId: `ui-${newId()}` })}
        >
          {words.lift}…
        </Button>
      ),
    },
  ];
  return (
    <section className={css.section}>
      <h2>{words.holds}</h2>
      <p className={css.hint}>{words.holdsMean}</p>
      <p>
        <Button
          refusal={may.refusal}
          saidBy={may.saidBy}
          onClick={() => setPlacing({ requestId: `ui-${newId()}`, kind: "RUN", subject: "" })}
        >
          {words.place}…
        </Button>
      </p>
      <MayNot of={may} />
      <List
        label={words.holds}
        pages={holds}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<p>{words.noHolds}</p>}
      />
      {placing && (
        <ReasonDialog
          title={words.place}
          verb={words.place}
          reason="required"
          ready={placing.subject.trim() !== ""}
          act={async (reason) => {
            const subject = placing.subject.trim();
            const { placeHold } = await request(PlaceHoldDocument, { input: { ...placing, subject, reason } });
            recordDone({ topic: "retention", what: words.placed(subject), change: placeHold.change });
            holds.refresh();
          }}
          onClose={() => setPlacing(null)}
        >
          <p>{words.holdsMean}</p>
          <SelectField
            label={words.covers}
            value={placing.kind}
            options={KINDS}
            set={(kind) => setPlacing({ ...placing, kind })}
          />
          <TextField
            label={words.subject}
            value={placing.subject}
            set={(subject) => setPlacing({ ...placing, subject })}
          />
        </ReasonDialog>
      )}
      {lifting && (
        <ReasonDialog
          title={words.liftOne(lifting.hold.subject)}
          verb={words.lift}
          reason="required"
          danger
          act={async (reason) => {
            const { liftHold } = await request(LiftHoldDocument, {
              input: { requestId: lifting.requestId, id: lifting.hold.id, reason },
            });
            recordDone({ topic: "retention", what: words.lifted(lifting.hold.subject), change: liftHold.change });
            holds.refresh();
          }}
          onClose={() => setLifting(null)}
        >
          <p>{words.liftMeans}</p>
        </ReasonDialog>
      )}
    </section>
  );
}
