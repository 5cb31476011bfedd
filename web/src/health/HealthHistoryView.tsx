import { useState } from "react";
import { m } from "../messages";
import { health as healthMessages } from "../messages/health";
import css from "../styles/Form.module.css";
import { clockTime, type Instant, zoneOffset } from "../format/format";
import { type Column, Table } from "../ui/Table";
import { Time, useZone } from "../ui/Time";
import own from "./Health.module.css";
import { HealthChart } from "./HealthChart";
import { CHARTS, type ChartName, type History, type Measure, type Sample, unwell, written } from "./samples";

const NAMES = Object.keys(CHARTS) as ChartName[];

function column(of: Measure, wide: boolean): Column<Sample> {
  return {
    head: healthMessages.lines[of],
    wide,
    cell: (sample) => (sample[of] === null ? healthMessages.none : written(of, sample[of])),
  };
}

const TABLE: Column<Sample>[] = [
  { head: healthMessages.at, main: true, cell: (sample) => <Time at={sample.at} format="clock" /> },
  { head: healthMessages.status, cell: (sample) => healthMessages.words[sample.status] },
  column("lagP50Ms", false),
  column("lagP99Ms", false),
  column("framesPerSecond", true),
  column("viewers", false),
  column("streams", true),
  column("staleStreams", false),
  column("stateStoreMs", false),
  column("temporalMs", false),
];

/** The charts. They keep their place while the history is loading (null). */
export function HealthHistoryView({ history }: { history: History | null }) {
  const zone = useZone();
  const [open, setOpen] = useState(false);
  const samples = history?.samples ?? [];
  const newest = samples.at(-1);
  const bad = unwell(samples);
  const time = (at: Instant): string => `${clockTime(at, zone)} ${zoneOffset(zone, at)}`;
  return (
    <>
      <p className={css.hint} role={history ? undefined : "status"} aria-label={history ? undefined : m.sync.LOADING}>
        {history && newest ? healthMessages.of(history.server, time(history.since), time(newest.at)) : m.sync.LOADING}
        {bad && ` ${healthMessages.unwell(bad.times, healthMessages.words[bad.last.status], time(bad.last.at))}`}
      </p>
      <div className={own.charts}>
        {NAMES.map((name) => (
          <HealthChart key={name} name={name} samples={samples} intervalMs={history?.intervalMs ?? 0} />
        ))}
      </div>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{healthMessages.asTable}</summary>
        {open && (
          <Table
            label={healthMessages.history}
            columns={TABLE}
            rows={samples.toReversed()}
            rowKey={(sample) => String(sample.at)}
          />
        )}
      </details>
    </>
  );
}
