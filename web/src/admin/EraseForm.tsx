// Asking for an erasure: what would be erased is counted first.
import { type FormEvent, useState } from "react";
import {
  type ErasureKind,
  PreviewErasureDocument,
  type PreviewErasureQuery,
  RequestErasureDocument,
} from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { ReasonDialog } from "../forms/ReasonDialog";
import { erasure as words } from "../messages/erasure";
import { Problem } from "../page/Problem";
import { recordDone } from "../session/done";
import { MayNot, useMay } from "../session/MayNot";
import { useViewer } from "../session/viewer";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";
import { SelectField, TextField } from "./Rows";

type Preview = PreviewErasureQuery["preview"];

const KINDS = Object.entries(words.kinds) as [ErasureKind, string][];

interface Line {
  place: string;
  count: number;
  more: boolean;
  erased: boolean;
}

const COLUMNS: Column<Line>[] = [
  { head: words.place, main: true, cell: ({ place }) => place },
  { head: words.number, cell: ({ count, more }) => words.counts(count, more) },
  { head: words.effect, cell: ({ erased }) => (erased ? words.erasedRow : words.stays) },
];

/** Asks to erase a person or the tenant. `asked` is called after the request. */
export function EraseForm({ asked }: { asked: () => void }) {
  const may = useMay("SET_POLICY", words.askNeeds);
  const { tenantId } = useViewer();
  const [kind, setKind] = useState<ErasureKind>("SUBJECT");
  const [person, setPerson] = useState("");
  const [counted, setCounted] = useState<{ subject: string | null } | null>(null);
  const [sending, setSending] = useState<string | null>(null);
  const preview = useQuery(PreviewErasureDocument, counted, (result) => result.preview);
  const name = counted?.subject ?? words.whole(tenantId);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const subject = person.trim();
    if (kind === "TENANT") setCounted({ subject: null });
    else if (subject !== "") setCounted({ subject });
  };
  return (
    <section className={css.section}>
      <h2>{words.ask}</h2>
      <MayNot of={may} />
      <form className={css.row} onSubmit={submit}>
        <SelectField
          label={words.what}
          value={kind}
          options={KINDS}
          set={(next) => {
            setKind(next);
            setCounted(null);
          }}
        />
        {kind === "SUBJECT" && (
          <TextField label={words.person} value={person} set={setPerson} placeholder={words.personHint} />
        )}
        <Button type="submit">{words.preview}</Button>
      </form>
      {counted !== null && preview.error !== null && <Problem error={preview.error} retry={preview.again} />}
      {counted !== null && preview.error === null && !preview.answer && <Skeleton rows={4} label={m.sync.LOADING} />}
      {counted !== null && preview.error === null && preview.answer && (
        <>
          <h3>{words.counted(name)}</h3>
          <Counted preview={preview.answer} />
          <p>
            <Button refusal={may.refusal} saidBy={may.saidBy} onClick={() => setSending(`ui-${newId()}`)}>
              {words.askNow}…
            </Button>
          </p>
        </>
      )}
      {counted !== null && sending !== null && (
        <ReasonDialog
          title={`${words.askNow}: ${name}`}
          verb={words.askNow}
          reason="required"
          danger
          word={counted.subject ?? tenantId}
          act={async (reason) => {
            const { requestErasure } = await request(RequestErasureDocument, {
              input: { requestId: sending, subject: counted.subject, tenantId, reason },
            });
            recordDone({ topic: "erasure", what: words.asked(name), change: requestErasure.change });
            setCounted(null);
            setPerson("");
            asked();
          }}
          onClose={() => setSending(null)}
        >
          <p>{words.asks}</p>
        </ReasonDialog>
      )}
    </section>
  );
}

function Counted({ preview: { kind, erased, remaining, holds, missing } }: { preview: Preview }) {
  const lines: Line[] = [
    ...erased.map((place) => ({ ...place, erased: true })),
    ...remaining.map((place) => ({ ...place, erased: false })),
  ];
  return (
    <>
      {missing.length > 0 && (
        <p className={css.tone} data-tone="bad">
          {words.missing(missing)}
        </p>
      )}
      {holds > 0 && (
        <p className={css.tone} data-tone="warn">
          {words.held(holds)}
        </p>
      )}
      {kind === "SUBJECT" && <p>{words.keys}</p>}
      {lines.length === 0 ? (
        <p>{words.nothing}</p>
      ) : (
        <Table
          label={words.counted("it")}
          columns={remaining.length > 0 ? COLUMNS : COLUMNS.slice(0, 2)}
          rows={lines}
          rowKey={({ place, erased: isErased }) => `${place} ${isErased}`}
        />
      )}
      {remaining.length > 0 && <p className={css.hint}>{words.remain}</p>}
    </>
  );
}
