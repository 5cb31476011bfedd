import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { DrainWorkerDocument, type WorkerFieldsFragment, WorkersDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { ReasonDialog } from "../forms/ReasonDialog";
import { m } from "../messages";
import { workers as words } from "../messages/workers";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { Gate, MayNot, useMay } from "../session/MayNot";
import { useViewer } from "../session/viewer";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice, Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";

type Worker = WorkerFieldsFragment;
type State = keyof typeof words.states;

const EVERY_MS = 10_000;
const TOPIC = "workers";
const TONES = {
  OK: "good",
  SILENT: "bad",
  OVERDUE: "warn",
  FAILED: "bad",
  DRAINING: "warn",
  DRAINED: "warn",
} as const satisfies Record<State, string>;
const SIGNS = {
  OK: "●",
  SILENT: "✕",
  OVERDUE: "◌",
  FAILED: "✕",
  DRAINING: "◐",
  DRAINED: "○",
} as const satisfies Record<State, string>;

function nameOf({ account, worker }: Worker): string {
  return `${account}/${worker}`;
}

function stateOf({ live, overdue, ok, drain, drained, inUse }: Worker): State {
  if (!live) return "SILENT";
  if (overdue) return "OVERDUE";
  if (!ok) return "FAILED";
  if (drain) return drained && inUse === 0 ? "DRAINED" : "DRAINING";
  return "OK";
}

export function WorkersPage() {
  return (
    <Gate action="DEBUG" title={words.title}>
      <Workers />
    </Gate>
  );
}

/** The data workers: what each serves, runs and can, and the button that drains it. */
function Workers() {
  useDocumentStatus(words.title);
  const workers = useQuery(WorkersDocument, {}, (result) => result.workers, { every: EVERY_MS });
  const may = useMay("SET_ENGINE_MODE", words.mayDrain);
  const [wanted, setWanted] = useState<{ worker: Worker; requestId: string } | null>(null);
  // A process that is gone has nothing to be done, so it stands below those that report.
  const rows = workers.answer?.toSorted((a, b) => Number(b.live) - Number(a.live));

  const act = async (reason: string): Promise<void> => {
    if (!wanted) return;
    const { worker, requestId } = wanted;
    const drain = worker.drain === null;
    const { drainWorker } = await request(DrainWorkerDocument, {
      input: { requestId, account: worker.account, worker: worker.worker, drain, reason },
    });
    const what = drain ? words.didDrain(nameOf(worker)) : words.didUndrain(nameOf(worker));
    if (drainWorker.change) recordDone({ topic: TOPIC, what, change: drainWorker.change });
    workers.again();
  };

  const columns: Column<Worker>[] = [
    { head: words.worker, main: true, cell: nameOf },
    { head: words.queue, cell: ({ queue }) => queue },
    { head: words.state, text: true, cell: (worker) => <StateOf worker={worker} /> },
    { head: words.runs, cell: (worker) => <Running worker={worker} /> },
    { head: words.version, wide: true, cell: ({ version }) => version ?? words.unknown },
    { head: words.heard, cell: ({ reportedAt }) => <Time at={instant(reportedAt)} /> },
    {
      head: words.sandbox,
      wide: true,
      text: true,
      cell: ({ runtime, missing }) => (
        <>
          {runtime}
          {missing.length > 0 && (
            <span className={css.hint}>
              {" "}
              {words.lacks}: {missing.map(({ part, reason }) => (reason ? `${part} (${reason})` : part)).join(", ")}
            </span>
          )}
        </>
      ),
    },
    {
      head: words.act,
      cell: (worker) =>
        (worker.live || worker.drain) && (
          <Button
            label={worker.drain ? words.undrainOf(nameOf(worker)) : words.drainOf(nameOf(worker))}
            refusal={may.refusal}
            saidBy={may.saidBy}
            onClick={() => setWanted({ worker, requestId: `ui-${newId()}` })}
          >
            {worker.drain ? words.undrain : words.drain}…
          </Button>
        ),
    },
  ];

  return (
    <>
      <PageHead title={words.title} asOf={workers.asOf} refresh={workers.again} repeated />
      {workers.error !== null && <Problem error={workers.error} retry={workers.again} />}
      {!rows && workers.error === null && <Skeleton rows={5} label={m.sync.LOADING} />}
      {rows?.length === 0 && (
        <Notice title={m.page.nothing}>
          <p>{words.empty}</p>
        </Notice>
      )}
      {rows && rows.length > 0 && (
        <p className={css.row}>
          {roomOf(rows)} <span className={css.hint}>{words.says}</span>
        </p>
      )}
      {rows && rows.length > 0 && (
        <Table
          label={words.title}
          columns={columns}
          rows={rows}
          rowKey={(worker) => `${nameOf(worker)} ${worker.queue}`}
        />
      )}
      <MayNot of={may} />
      <DoneLine topic={TOPIC} />
      {wanted && <DrainDialog worker={wanted.worker} all={rows ?? []} act={act} onClose={() => setWanted(null)} />}
    </>
  );
}

/** Whether steps can start now: the workers that take steps, their free slots, and the queues that no worker serves. */
function roomOf(rows: readonly Worker[]): string {
  const taking = rows.filter((worker) => stateOf(worker) === "OK");
  const queues = new Set(taking.map(({ queue }) => queue));
  const idle = [...new Set(rows.map(({ queue }) => queue))].filter((queue) => !queues.has(queue));
  const slots = new Map(taking.map((worker) => [nameOf(worker), worker.slots - worker.inUse]));
  const free = [...slots.values()].reduce((sum, n) => sum + Math.max(0, n), 0);
  return [words.room(slots.size, queues.size, free), ...idle.map(words.unserved)].join(" ");
}

function StateOf({ worker }: { worker: Worker }) {
  const state = stateOf(worker);
  return (
    <span>
      <span className={css.tone} data-tone={TONES[state]}>
        <span aria-hidden="true">{SIGNS[state]}</span> {words.states[state]}
      </span>
      {state === "OVERDUE" && ` ${words.missed}`}
      {worker.problem !== null && ` ${worker.problem}`}
      {worker.drain &&
        ` ${(state === "SILENT" ? words.silentDrain : words.drained)(worker.drain.actor, worker.drain.reason)}`}
      {worker.last && <span className={css.hint}> {words.last}</span>}
    </span>
  );
}

/** How many slots are in use, and by which steps. The runs of other tenants have no link. */
function Running({ worker: { slots, inUse, steps } }: { worker: Worker }) {
  const viewer = useViewer();
  if (slots === 0) return words.unknown;
  if (steps.length === 0) return words.of(inUse, slots);
  return (
    <details className={css.detail}>
      <summary>{words.of(inUse, slots)}</summary>
      <ul>
        {steps.map(({ tenantId, runId, stepId, since }) => (
          <li key={`${runId} ${stepId} ${since}`}>
            {tenantId === viewer.tenantId ? (
              <Link to="/runs/$runId" params={{ runId }} search={{ step: stepId }}>
                {shortId(runId)} {stepId}
              </Link>
            ) : (
              words.ofTenant(tenantId)
            )}{" "}
            {words.since} <Time at={instant(since)} />
          </li>
        ))}
        {inUse > steps.length && <li>{words.more(inUse - steps.length)}</li>}
      </ul>
    </details>
  );
}

interface DrainDialogProps {
  worker: Worker;
  all: readonly Worker[];
  act: (reason: string) => Promise<void>;
  onClose: () => void;
}

/** Says what a drain would do before it is sent. */
function DrainDialog({ worker, all, act, onClose }: DrainDialogProps) {
  const name = nameOf(worker);
  const alone = all.filter((other) => nameOf(other) === name && other.last).map(({ queue }) => queue);
  const ends = worker.drain !== null;
  return (
    <ReasonDialog
      title={ends ? words.undrainOf(name) : words.drainOf(name)}
      verb={ends ? words.undrain : words.drain}
      reason="required"
      danger={!ends && alone.length > 0}
      act={act}
      onClose={onClose}
    >
      {ends ? (
        <p>{words.undrainMeans}</p>
      ) : (
        <>
          <p>
            {words.drainMeans} {words.runsNow(worker.inUse)}
          </p>
          {alone.length > 0 && (
            <p>
              <strong>{words.alone(alone)}</strong>
            </p>
          )}
        </>
      )}
    </ReasonDialog>
  );
}
