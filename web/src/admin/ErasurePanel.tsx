// Requests to erase a person or the tenant: asking, confirming, and what became of each.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { DecideErasureDocument, type ErasureFieldsFragment, ErasuresDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { shortId } from "../format/format";
import { ReasonDialog } from "../forms/ReasonDialog";
import { erasure as words } from "../messages/erasure";
import { List, PageHead } from "../page/List";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { MayNot, useMay } from "../session/MayNot";
import { useViewer } from "../session/viewer";
import { runLook } from "../status/look";
import css from "../styles/Form.module.css";
import confirm from "../styles/Confirm.module.css";
import prose from "../styles/Prose.module.css";
import { Button } from "../ui/Button";
import { CopyText } from "../ui/CopyText";
import { Dialog } from "../ui/Dialog";
import { save } from "../ui/saveFile";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";
import { EraseForm } from "./EraseForm";

type Erasure = ErasureFieldsFragment;

const EVERY_MS = 10_000;

const PHASES = {
  SUBJECT: ["LEDGER", "KEYS", "ROWS", "NAMES", "TEXTS", "LOGS", "OPEN", "AGAIN", "COMPACT", "CERTIFY"],
  TENANT: ["LEDGER", "FREEZE", "END", "DRAIN", "ROWS", "BUCKET", "ENGINE", "AGAIN", "COMPACT", "CERTIFY"],
} as const satisfies Record<Erasure["kind"], readonly string[]>;

/** A decision to make, with the key that makes sending it again safe. */
interface Deciding {
  requestId: string;
  erasure: Erasure;
  confirm: boolean;
}

/** What is erased, in words. */
function ofWhat({ kind, subject, finishedAt }: Erasure, tenantId: string): string {
  if (kind === "TENANT") return words.whole(tenantId);
  return subject ?? (finishedAt === null ? "" : words.erasedSubject);
}

export function ErasurePanel() {
  const pages = useConnection(ErasuresDocument, {}, (result) => result.erasures, { size: 20, every: EVERY_MS });
  const may = useMay("READ_AUDIT");
  const { principal, tenantId } = useViewer();
  const [deciding, setDeciding] = useState<Deciding | null>(null);
  const [showing, setShowing] = useState<Erasure | null>(null);
  const decide = (erasure: Erasure, confirm: boolean): void =>
    setDeciding({ requestId: `ui-${newId()}`, erasure, confirm });
  const columns: Column<Erasure>[] = [
    { head: words.of, main: true, text: true, cell: (erasure) => ofWhat(erasure, tenantId) },
    { head: words.state, text: true, cell: (erasure) => <State erasure={erasure} /> },
    { head: words.who, text: true, cell: (erasure) => <Who erasure={erasure} /> },
    { head: words.why, text: true, cell: ({ reason }) => reason },
    {
      head: words.actions,
      cell: (erasure) => {
        const name = ofWhat(erasure, tenantId);
        if (erasure.finishedAt !== null)
          return (
            erasure.certificate !== null && (
              <Button label={`${words.certificate}: ${erasure.id}`} onClick={() => setShowing(erasure)}>
                {words.certificate}…
              </Button>
            )
          );
        if (erasure.cancelledAt !== null || erasure.startedAt !== null) return null;
        return (
          <span className={confirm.tools}>
            {erasure.waitsFor === "SECOND_PERSON" && (
              <Button
                refusal={may.refusal ?? (erasure.requestedBy === principal ? words.ownRequest : null)}
                saidBy={may.saidBy}
                label={words.confirmOne(name)}
                onClick={() => decide(erasure, true)}
              >
                {words.confirm}…
              </Button>
            )}
            <Button
              refusal={may.refusal}
              saidBy={may.saidBy}
              label={words.cancelOne(name)}
              onClick={() => decide(erasure, false)}
            >
              {words.cancel}…
            </Button>
          </span>
        );
      },
    },
  ];
  return (
    <>
      <PageHead title={words.title} asOf={pages.asOf} refresh={pages.refresh} repeated />
      <p className={`${css.row} ${css.hint}`}>{words.intro}</p>
      <DoneLine topic="erasure" />
      <EraseForm asked={pages.refresh} />
      <section className={css.section}>
        <h2>{words.requests}</h2>
        <MayNot of={may} />
        <List
          label={words.requests}
          pages={pages}
          columns={columns}
          rowKey={({ id }) => id}
          empty={<p>{words.none}</p>}
        />
      </section>
      {deciding && <Decide {...deciding} tenantId={tenantId} close={() => setDeciding(null)} done={pages.refresh} />}
      {showing && <Certificate erasure={showing} close={() => setShowing(null)} />}
    </>
  );
}

/** How far it is, what it waits for and who can end that. */
function State({ erasure }: { erasure: Erasure }) {
  const { waitsFor, startedAt, finishedAt, cancelledAt, phase } = erasure;
  if (finishedAt !== null)
    return (
      <span>
        <span className={css.tone} data-tone="good">
          {words.erased}
        </span>{" "}
        <Time at={instant(finishedAt)} format="full" />
      </span>
    );
  if (cancelledAt !== null) return words.cancelled;
  if (waitsFor === "OPEN_WORK") return <OpenWork erasure={erasure} />;
  if (startedAt !== null) {
    const phases: readonly string[] = PHASES[erasure.kind];
    const erased = erasure.erased.reduce((sum, { place, count: n }) => (place === "bucket bytes" ? sum : sum + n), 0);
    return (
      <span>
        <strong>{words.erasing(phase ?? "LEDGER")}</strong> (
        {words.steps(phases.indexOf(phase ?? "LEDGER") + 1, phases.length)}, {words.erasedSoFar(erased)}).{" "}
        {words.ledger} <Time at={instant(startedAt)} format="full" />.
      </span>
    );
  }
  if (waitsFor === null) return "";
  return (
    <span>
      <span className={css.tone} data-tone={waitsFor === "SECOND_PERSON" ? undefined : "warn"}>
        {words.waits[waitsFor]}
        {waitsFor !== "SECOND_PERSON" && "."}
      </span>{" "}
      {waitsFor === "SECOND_PERSON" && (
        <>
          {words.until} <Time at={instant(erasure.expiresAt)} format="full" />.{" "}
        </>
      )}
      {words.due} <Time at={instant(erasure.dueAt)} format="full" />. {erasure.holds > 0 && words.held(erasure.holds)}{" "}
      {waitsFor === "OWNER" && (
        <CopyText name={words.carryOut} text={`dvt store erase ${erasure.id} --config owner.yaml --yes`} />
      )}
    </span>
  );
}

/** The open runs and bulks that have to end before the erasure goes on. */
function OpenWork({ erasure }: { erasure: Erasure }) {
  const more = erasure.openWorkCount - erasure.openWork.length;
  return (
    <div>
      <span className={css.tone} data-tone="warn">
        {words.waits.OPEN_WORK}:
      </span>{" "}
      {words.openWork(erasure.openWorkCount)}.{" "}
      {erasure.openWorkAt !== null && (
        <>
          {words.openAsOf} <Time at={instant(erasure.openWorkAt)} />.
        </>
      )}
      <ul>
        {erasure.openWork.map(({ runId, bulkId, planId, projectId, environmentId, status }) => (
          <li key={runId ?? bulkId}>
            {runId === null ? (
              words.bulk(bulkId ?? "")
            ) : (
              <>
                <Link to="/runs/$runId" params={{ runId }} title={runId}>
                  {shortId(runId)}
                </Link>{" "}
                {status === null
                  ? words.gone
                  : `${runLook({ status, statusRaw: status, substatus: null, pause: null }).word}, ${planId}, ${projectId}/${environmentId}`}
              </>
            )}
          </li>
        ))}
        {more > 0 && <li>{words.openMore(more)}</li>}
      </ul>
      {words.openThen}{" "}
      <CopyText name={words.carryOut} text={`dvt store erase ${erasure.id} --config owner.yaml --yes`} />
    </div>
  );
}

/** The people who decided. A finished erasure names nobody. */
function Who({ erasure }: { erasure: Erasure }) {
  const steps = [
    { did: words.askedBy, by: erasure.requestedBy, at: erasure.requestedAt },
    { did: words.confirmedBy, by: erasure.confirmedBy, at: erasure.confirmedAt },
    { did: words.cancelledBy, by: erasure.cancelledBy, at: erasure.cancelledAt },
  ];
  return (
    <span>
      {steps.map(
        ({ did, by, at }, i) =>
          at !== null && (
            <span key={did}>
              {i > 0 && ", "}
              {by} {did} <Time at={instant(at)} />
            </span>
          ),
      )}
    </span>
  );
}

interface DecideProps extends Deciding {
  tenantId: string;
  close: () => void;
  done: () => void;
}

function Decide({ requestId, erasure, confirm, tenantId, close, done }: DecideProps) {
  const name = ofWhat(erasure, tenantId);
  return (
    <ReasonDialog
      title={confirm ? words.confirmOne(name) : words.cancelOne(name)}
      verb={confirm ? words.confirm : words.cancelIt}
      reason="required"
      danger={confirm}
      {...(confirm ? { word: erasure.subject ?? tenantId } : { back: words.keep })}
      act={async (reason) => {
        const { decideErasure } = await request(DecideErasureDocument, {
          input: { requestId, id: erasure.id, confirm, reason },
        });
        const what = confirm ? words.confirmed(name) : words.cancelledIt(name);
        recordDone({ topic: "erasure", what, change: decideErasure.change });
        done();
      }}
      onClose={close}
    >
      <p>
        {erasure.requestedBy}: “{erasure.reason}”
      </p>
      <p>{confirm ? words.confirmMeans : words.cancelMeans}</p>
      {confirm && erasure.holds > 0 && <p role="note">{words.held(erasure.holds)}</p>}
    </ReasonDialog>
  );
}

/** A JSON document in lines, to read. The signature covers the document that is downloaded. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Certificate({ erasure, close }: { erasure: Erasure; close: () => void }) {
  const text = erasure.certificate ?? "";
  return (
    <Dialog title={words.certificate} onClose={close} wide>
      <div className={css.stack}>
        <p>{words.certificateMeans}</p>
        <Table
          label={words.erased}
          columns={[
            { head: words.place, main: true, cell: ({ place }) => place },
            { head: words.number, cell: ({ count }) => count.toLocaleString("en") },
          ]}
          rows={erasure.erased}
          rowKey={({ place }) => place}
        />
        <pre className={prose.said}>{pretty(text)}</pre>
        <div className={css.buttons}>
          <Button onClick={() => save(`certificate-${erasure.id}.json`, text)}>{words.download}</Button>
          <Button back onClick={close}>
            {words.close}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
