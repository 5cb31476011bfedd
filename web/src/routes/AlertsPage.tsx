import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { AlertList } from "../alerts/AlertList";
import { Silences } from "../alerts/Silences";
import { follow } from "../api/follow";
import { type AlertLevel, AlertsDocument, type AlertStage, AlertUpdatesDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { alerts as words } from "../messages/alerts";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import form from "../styles/Form.module.css";
import page from "../styles/Page.module.css";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice, Skeleton } from "../ui/Page";
import { ALERT_LEVELS, ALERT_STAGES } from "./search";

const route = getRouteApi("/alerts");
const FIRST = 200;
const UNRESOLVED: AlertStage[] = ["OPEN", "ACKNOWLEDGED"];

/** A number that changes when alerts may have changed. */
function useAlertVersion(): [number, () => void] {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const bump = (): void => setVersion((n) => n + 1);
    const stream = follow(AlertUpdatesDocument, {}, { next: bump, refused: () => {} });
    return stream.close;
  }, []);
  return [version, () => setVersion((n) => n + 1)];
}

export function AlertsPage() {
  useDocumentStatus(words.title);
  const { stage, level } = route.useSearch();
  const navigate = route.useNavigate();
  const [version, changed] = useAlertVersion();
  const filter = { stages: stage ?? UNRESOLVED, levels: level ?? [] };
  const { answer, error, asOf, again } = useQuery(
    AlertsDocument,
    { filter, first: FIRST },
    ({ alerts }) => ({ rows: alerts.edges.map(({ node }) => node), more: alerts.pageInfo.hasNextPage }),
    { refetchOn: version },
  );
  const filtered = stage !== undefined || level !== undefined;
  return (
    <div className={page.measure}>
      <PageHead title={words.title} asOf={asOf} refresh={again} repeated>
        <Choice<AlertStage>
          label={words.byStage}
          all={`${words.stages.OPEN}, ${words.stages.ACKNOWLEDGED}`}
          options={ALERT_STAGES}
          words={words.stages}
          chosen={stage?.[0]}
          choose={(to) => void navigate({ search: (old) => ({ ...old, stage: to && [to] }), replace: true })}
        />
        <Choice<AlertLevel>
          label={words.byLevel}
          all={ALERT_LEVELS.map((one) => words.levels[one]).join(", ")}
          options={ALERT_LEVELS}
          words={words.levels}
          chosen={level?.[0]}
          choose={(to) => void navigate({ search: (old) => ({ ...old, level: to && [to] }), replace: true })}
        />
        <Link to="/incidents" className={form.beside}>
          {m.nav.incidents}
        </Link>
      </PageHead>
      {error !== null && <Problem error={error} retry={again} />}
      {answer === undefined && error === null && <Skeleton rows={6} label={m.sync.LOADING} />}
      {answer?.rows.length === 0 && (
        <Notice title={m.page.nothing}>
          <p>{filtered ? words.noneFiltered : words.none}</p>
        </Notice>
      )}
      {answer?.more && <p role="status">{words.cut(FIRST)}</p>}
      {answer && <AlertList alerts={answer.rows} changed={changed} />}
      {answer && <Silences version={version} changed={changed} />}
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  /** The word for no restriction. */
  all: string;
  options: readonly T[];
  words: Readonly<Record<T, string>>;
  chosen: T | undefined;
  choose: (to: T | undefined) => void;
}

function Choice<T extends string>({ label, all, options, words: of, chosen, choose }: ChoiceProps<T>) {
  return (
    <label className={form.field}>
      <span>{label}</span>
      <select
        value={chosen ?? ""}
        onChange={(event) => choose(options.find((option) => option === event.target.value))}
      >
        <option value="">{all}</option>
        {options.map((option) => (
          <option key={option} value={option}>
            {of[option]}
          </option>
        ))}
      </select>
    </label>
  );
}
