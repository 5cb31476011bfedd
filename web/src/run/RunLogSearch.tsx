import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { LogSearchDocument, type LogSearchQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useConnection } from "../api/useConnection";
import { logWords } from "../messages/log";
import { titleOf } from "../runstate/stepTitle";
import { Problem } from "../page/Problem";
import { useHeader, useRunStore } from "../runstate/context";
import { RESET_STEP_PARAMS } from "../address/views";
import { attemptName, count, shortId } from "../format/format";
import { stepTitle } from "../format/stepTitle";
import { Button } from "../ui/Button";
import { Notice, Skeleton } from "../ui/Page";
import { Time } from "../ui/Time";
import { markedSpans } from "../logs/ansi";
import css from "../logs/LogView.module.css";

const TYPING_MS = 400;
/** The numbers of runs of the plan that can be searched. */
const RUNS = [5, 10, 20] as const;

type Search = NonNullable<LogSearchQuery["logSearch"]>;
type Log = Search["edges"][number]["node"];

/** The text in other letters: the search distinguishes capital and small ones, and people type small ones. */
function inOtherLetters(text: string): string[] {
  const lower = text.toLowerCase();
  const capital = lower.replace(/\p{L}/u, (letter) => letter.toUpperCase());
  return [...new Set([text.toUpperCase(), capital, lower])].filter((other) => other !== text);
}

/** Searches a text in the logs of all steps of the run, or of the plan's newest runs. */
export default function RunLogSearch({ runId }: { runId: string }) {
  const header = useHeader();
  const { text = "", runs } = useSearch({ strict: false });
  const navigate = useNavigate({ from: "/runs/$runId" });
  const [typed, setTyped] = useState(text);
  useEffect(() => {
    if (typed === text) return;
    const timer = setTimeout(
      () => void navigate({ search: (old) => ({ ...old, text: typed === "" ? undefined : typed }), replace: true }),
      TYPING_MS,
    );
    return () => clearTimeout(timer);
  }, [typed, text, navigate]);
  if (!header) return null;
  const plan = { planId: header.plan.planId, projectId: header.projectId, environmentId: header.environmentId };
  return (
    <div className={css.found}>
      <div className={css.form} role="search">
        <input
          type="search"
          value={typed}
          maxLength={200}
          placeholder={logWords.logSearch.text}
          aria-label={logWords.logSearch.text}
          onChange={(event) => setTyped(event.target.value)}
        />
        <select
          aria-label={logWords.logSearch.where}
          value={runs ?? ""}
          onChange={(event) => {
            const many = Number(event.target.value);
            void navigate({ search: (old) => ({ ...old, runs: many || undefined }), replace: true });
          }}
        >
          <option value="">{logWords.logSearch.thisRun}</option>
          {RUNS.map((many) => (
            <option key={many} value={many}>
              {logWords.logSearch.lastRuns(many, plan.planId)}
            </option>
          ))}
        </select>
      </div>
      {text === "" ? (
        <p className={css.quiet}>{logWords.logSearch.hint}</p>
      ) : (
        <Found
          key={`${runs ?? ""} ${text}`}
          runId={runId}
          text={text}
          search={setTyped}
          within={runs === undefined ? { runId } : { plan: { ...plan, newest: runs } }}
        />
      )}
    </div>
  );
}

interface FoundProps {
  runId: string;
  text: string;
  search: (text: string) => void;
  within: { runId: string } | { plan: { planId: string; projectId: string; environmentId: string; newest: number } };
}

function Found({ runId, text, search, within }: FoundProps) {
  const { rows, error, hasMore, loading, more, refresh } = useConnection(
    LogSearchDocument,
    { in: within, find: text },
    ({ logSearch }): Search | null => logSearch,
    { size: 20 },
  );
  if (error) return <Problem error={error} retry={refresh} />;
  if (rows === null) return <Skeleton rows={4} label={logWords.logSearch.searching} />;
  return (
    <>
      {rows.length === 0 && !hasMore && (
        <Notice title={logWords.logSearch.none(text)}>
          <p className={css.form}>
            {inOtherLetters(text).map((other) => (
              <Button key={other} onClick={() => search(other)}>
                {logWords.logSearch.instead(other)}
              </Button>
            ))}
          </p>
        </Notice>
      )}
      <ol className={css.found} aria-label={logWords.logSearch.results}>
        {rows.map((log) => (
          <li key={`${log.runId} ${log.stepId} ${log.attempt}`}>
            <FoundLog runId={runId} text={text} log={log} />
          </li>
        ))}
      </ol>
      {hasMore && (
        <Button onClick={more} refusal={loading ? logWords.logSearch.searching : null}>
          {logWords.logSearch.more}
        </Button>
      )}
    </>
  );
}

function FoundLog({ runId, text, log }: { runId: string; text: string; log: Log }) {
  const store = useRunStore();
  const own = log.runId === runId;
  const latest = own ? store.step(log.stepId)?.logicalAttemptId : undefined;
  const attempt = log.attempt === latest ? undefined : log.attempt;
  const place = { step: log.stepId, tab: "log", q: text } as const;
  return (
    <>
      <p className={css.form}>
        <strong title={log.stepId}>{own ? titleOf(store, log.stepId) : stepTitle(log.stepId, log.stepName)}</strong>
        {log.attempt > 1 && <span>{attemptName(log.attempt)}</span>}
        {!own && (
          <span className={css.quiet}>
            {logWords.logSearch.run(shortId(log.runId))}, <Time at={instant(log.runCreatedAt)} />
          </span>
        )}
        <span className={css.quiet}>{logWords.logSearch.matches(log.totalMatches)}</span>
        {log.partial && <span className={css.quiet}>{logWords.logSearch.partial}</span>}
      </p>
      <ul>
        {log.lines.map((line) => (
          <li key={line.no}>
            {own ? (
              <Link
                className={css.match}
                from="/runs/$runId"
                to="."
                search={(old) => ({ ...old, ...RESET_STEP_PARAMS, ...place, attempt, line: line.no })}
              >
                <Words no={line.no} line={line.text} text={text} />
              </Link>
            ) : (
              <Link
                className={css.match}
                to="/runs/$runId"
                params={{ runId: log.runId }}
                search={{ ...place, attempt: log.attempt, line: line.no }}
              >
                <Words no={line.no} line={line.text} text={text} />
              </Link>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

function Words({ no, line, text }: { no: number; line: string; text: string }) {
  return (
    <>
      <span className={css.no}>{count(no)}</span>
      <span>
        {markedSpans(line, text).map((span, i) => {
          const Part = span.match ? "mark" : "span";
          // The spans of a line never change their order.
          // oxlint-disable-next-line react/no-array-index-key
          return <Part key={i}>{span.text}</Part>;
        })}
      </span>
    </>
  );
}
