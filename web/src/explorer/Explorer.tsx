// A page to write queries with the viewer's own session. It is not the package GraphiQL: see decision 78.
import { type KeyboardEvent, Suspense, useEffect, useRef, useState } from "react";
import { TypedDocumentString } from "../api/gen/graphql";
import { subscribe } from "../api/live";
import { answerTo } from "../api/request";
import { m } from "../messages";
import { explorer as explorerWords } from "../messages/explorer";
import form from "../styles/Form.module.css";
import prose from "../styles/Prose.module.css";
import { Button } from "../ui/Button";
import { lazyPart } from "../ui/lazyPart";
import { Skeleton } from "../ui/Page";
import css from "./Explorer.module.css";
import { EXAMPLES } from "./examples";
import { SchemaDocs } from "./SchemaDocs";

const QueryEditor = lazyPart(() => import("./QueryEditor").then((part) => part.QueryEditor));

const FIRST = `query {
  viewer {
    principal
    tenantId
  }
}
`;
/** Messages of a subscription that are shown. */
const MOST = 20;

/** Whether the text has a subscription, which is a stream and not one answer. */
export function isSubscription(text: string): boolean {
  return /^\s*subscription\b/m.test(text.replaceAll(/#.*$/gm, ""));
}

/** The variables that a text has; throws when it is no JSON object. */
export function parseVariables(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(text.trim().slice(0, 40));
  return value as Record<string, unknown>;
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function Explorer() {
  const [query, setQuery] = useState(FIRST);
  const [variables, setVariables] = useState("");
  const [results, setResults] = useState<readonly string[]>([]);
  const [state, setState] = useState(explorerWords.none);
  const [running, setRunning] = useState(false);
  const stop = useRef<(() => void) | null>(null);
  const end = (): void => {
    stop.current?.();
    stop.current = null;
    setRunning(false);
  };
  useEffect(() => () => stop.current?.(), []);
  // The editor reads its text when it is made.
  const [from, setFrom] = useState(0);
  const begin = (name: string): void => {
    const example = EXAMPLES.find((one) => one.name === name);
    if (!example) return;
    setQuery(example.query);
    setVariables(example.variables);
    setFrom((n) => n + 1);
  };

  const run = (): void => {
    end();
    setResults([]);
    let given: Record<string, unknown>;
    try {
      given = parseVariables(variables);
    } catch (cause) {
      return setState(explorerWords.badVariables(cause instanceof Error ? cause.message : String(cause)));
    }
    setRunning(true);
    setState(explorerWords.running);
    if (isSubscription(query)) {
      let n = 0;
      stop.current = subscribe(new TypedDocumentString<unknown, Record<string, unknown>>(query), given, {
        next: (value) => {
          n += 1;
          setState(explorerWords.stream(n));
          setResults((old) => [JSON.stringify(value, null, 2), ...old].slice(0, MOST));
        },
        end: (error) => {
          end();
          setState(error.code === "NETWORK" ? explorerWords.ended : `${error.message} [${error.code}]`);
        },
      });
      return;
    }
    const aborter = new AbortController();
    stop.current = () => aborter.abort();
    answerTo(query, given, aborter.signal).then(
      (text) => {
        if (aborter.signal.aborted) return;
        setResults([pretty(text)]);
        setState("");
        setRunning(false);
      },
      (cause: unknown) => {
        if (aborter.signal.aborted) return;
        setState(cause instanceof Error ? cause.message : String(cause));
        setRunning(false);
      },
    );
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run();
  };
  return (
    <div className={css.explorer}>
      <section className={css.ask}>
        <label className={form.field}>
          <span>{explorerWords.example}</span>
          <select value="" onChange={(event) => begin(event.target.value)}>
            <option value="">{explorerWords.choose}</option>
            {EXAMPLES.map(({ name }) => (
              <option key={name} value={name}>
                {explorerWords.examples[name]}
              </option>
            ))}
          </select>
        </label>
        <div className={form.field}>
          <span>{explorerWords.query}</span>
          <Suspense fallback={<Skeleton rows={10} label={m.sync.LOADING} />}>
            <QueryEditor key={from} text={query} change={setQuery} run={run} />
          </Suspense>
          <p className={css.quiet}>{explorerWords.keys}</p>
        </div>
        <label className={form.field}>
          <span>{explorerWords.variables}</span>
          <textarea
            onKeyDown={onKeyDown}
            rows={3}
            value={variables}
            spellCheck={false}
            onChange={(e) => setVariables(e.target.value)}
          />
        </label>
        <p>
          {running ? (
            <Button onClick={end}>{explorerWords.stop}</Button>
          ) : (
            <Button kind="primary" onClick={run}>
              {explorerWords.run}
            </Button>
          )}
        </p>
      </section>
      <section className={css.result} aria-label={explorerWords.result}>
        <p role="status" className={css.quiet}>
          {state}
        </p>
        {results.map((text, i) => (
          <pre key={results.length - i} className={prose.said} tabIndex={0} aria-label={explorerWords.result}>
            {text}
          </pre>
        ))}
      </section>
      <SchemaDocs />
    </div>
  );
}
