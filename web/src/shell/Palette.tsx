import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useEffect, useId, useState } from "react";
import { PalettePlansDocument, type PalettePlansQuery, RunsDocument } from "../api/gen/graphql";
import { type RunRow, toRow } from "../api/model";
import { useQuery } from "../api/useQuery";
import { type Theme, THEMES } from "./Account";
import { MORE_PAGES, PAGES } from "./pages";
import { m } from "../messages";
import { explorer as explorerWords } from "../messages/explorer";
import { parseQuery } from "../runlist/query";
import { toRunsSearch } from "../runlist/runsSearch";
import { useSavedViews } from "../runlist/savedViews";
import { signOut } from "../session/SignIn";
import { Dialog } from "../ui/Dialog";
import { dateTime, relative, shortId, type Zone } from "../format/format";
import { setKeysOn, useKeysOn } from "../ui/keys";
import { offeredEntries, type PaletteEntry } from "../ui/paletteEntries";
import { useZone } from "../ui/Time";
import { runLook } from "../status/look";
import { StatusIcon } from "../ui/Status";
import { matching } from "./match";
import css from "./Palette.module.css";

const RUNS = 8;
const PLANS = 4;
const TYPING_MS = 150;
const NONE: readonly RunRow[] = [];

interface PaletteProps {
  /** `dvt dev` signs in by itself, so there is nothing to sign out of. */
  dev?: boolean;
  close: () => void;
  help: () => void;
  setTheme: (theme: Theme) => void;
  setZone: (zone: Zone) => void;
}

/** The parts of Admin, by the words for what people look for there. */
const ADMIN = [
  { part: "tokens", names: [m.admin.parts.tokens] },
  { part: "policy", names: [m.admin.parts.policy] },
  { part: "quotas", names: [m.admin.parts.quotas] },
  { part: "service", names: [m.admin.parts.service, m.palette.shareLinks, m.palette.freeze] },
  { part: "retention", names: [m.admin.parts.retention] },
  { part: "erasure", names: [m.admin.parts.erasure] },
] as const;

interface Entry extends PaletteEntry {
  run?: RunRow;
}

/** Finds pages, actions and runs by name; runs by plan or by the start of their id. */
export function Palette({ dev = false, close, help, setTheme, setZone }: PaletteProps) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const keys = useKeysOn();
  const zone = useZone();
  const id = useId();
  const runs = useFound(typed.trim());
  const plans = useFoundPlans(typed.trim());
  const { views } = useSavedViews();
  const fixed: Entry[] = [
    ...[...PAGES, ...MORE_PAGES].map(({ to, name, key }) => ({
      key: to,
      word: m.palette.go(name === "attention" ? m.palette.home : m.nav[name]),
      hint: `g ${key}`,
      act: () => void navigate({ to }),
    })),
    ...ADMIN.flatMap(({ part, names }) =>
      names.map((name) => ({
        key: `${part} ${name}`,
        word: m.palette.adminPart(name),
        act: () => void navigate({ to: "/admin/$part", params: { part } }),
      })),
    ),
    { key: "start", word: m.runs.start, hint: "c", act: () => void navigate({ to: "/start" }) },
    {
      key: "failed",
      word: m.palette.failed,
      act: () => void navigate({ to: "/runs", search: { status: ["FAILED"] } }),
    },
    { key: "explorer", word: m.palette.go(explorerWords.title), act: () => void navigate({ to: "/graphiql" }) },
    { key: "reference", word: m.palette.go(explorerWords.reference), act: () => location.assign("/docs/api") },
    { key: "codes", word: m.palette.go(explorerWords.codes), act: () => location.assign("/docs/api#errors") },
    { key: "bulks", word: m.palette.bulks, act: () => void navigate({ to: "/bulk" }) },
    ...THEMES.map((theme) => ({
      key: theme,
      word: m.palette.theme(m.viewer.themes[theme]),
      act: () => setTheme(theme),
    })),
    { key: "utc", word: m.palette.zone("UTC"), act: () => setZone("utc") },
    { key: "local", word: m.palette.zone("local"), act: () => setZone("local") },
    { key: "keys", word: keys ? m.palette.keysOff : m.palette.keysOn, act: () => setKeysOn(!keys) },
    { key: "help", word: m.palette.help, hint: "?", act: help },
    ...(dev ? [] : [{ key: "out", word: m.signIn.out, act: () => void signOut() }]),
  ];
  const offered = offeredEntries(typed);
  const entries: Entry[] = [
    // Steps were found by any part of their name, actions by the beginnings of words.
    ...matching(
      offered.filter(({ hint }) => hint === undefined),
      typed,
    ),
    ...offered.filter(({ hint }) => hint !== undefined),
    ...plans.flatMap(({ planId, projectId, environmentId, runs: [newest] }) => {
      const hint = `${projectId} / ${environmentId}`;
      const place = { project: projectId, env: environmentId };
      const key = `${planId} ${hint}`;
      return [
        {
          key: `plan ${key}`,
          word: m.palette.openPlan(planId),
          hint,
          act: () => void navigate({ to: "/plans/$planId", params: { planId }, search: place }),
        },
        {
          key: `start ${key}`,
          word: m.palette.startPlan(planId),
          hint,
          act: () => void navigate({ to: "/start", search: { from: newest?.runId, ...place } }),
        },
      ];
    }),
    ...matching(fixed, typed),
    ...matching(
      views.map(({ viewId, name, query }) => ({
        key: `view ${viewId}`,
        word: m.palette.view(name),
        hint: query,
        act: () => void navigate({ to: "/runs", search: toRunsSearch(parseQuery(query).query) }),
      })),
      typed,
    ),
    ...runs.map((run) => ({
      key: run.runId,
      word: m.palette.run(runLook(run).word, `${run.plan.planId}@${run.plan.planVersion}`),
      hint: `${relative(run.createdAt, Date.now()) ?? dateTime(run.createdAt, zone)} · ${shortId(run.runId)}`,
      run,
      act: () => void navigate({ to: "/runs/$runId", params: { runId: run.runId } }),
    })),
  ];
  const chosen = Math.min(at, entries.length - 1);
  const choose = (entry: Entry | undefined): void => {
    if (!entry) return;
    close();
    entry.act();
  };
  const walk = (event: KeyboardEvent): void => {
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1 + entries.length }[event.key];
    if (event.key === "Enter") choose(entries[chosen]);
    else if (to === undefined || entries.length === 0) return;
    else setAt(to % entries.length);
    event.preventDefault();
  };
  useEffect(() => {
    // Newer browsers return a promise, which an effect must not return.
    void document.getElementById(`${id}-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [id, chosen]);
  return (
    <Dialog title={m.palette.title} onClose={close}>
      <input
        role="combobox"
        className={css.input}
        aria-label={m.palette.label}
        aria-expanded
        aria-controls={id}
        aria-activedescendant={entries.length > 0 ? `${id}-${chosen}` : undefined}
        placeholder={m.palette.label}
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={walk}
      />
      <div id={id} role="listbox" aria-label={m.palette.title} className={css.list}>
        {entries.map((entry, i) => (
          <button
            key={entry.key}
            id={`${id}-${i}`}
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={i === chosen}
            className={css.entry}
            onClick={() => choose(entry)}
            onPointerMove={() => setAt(i)}
          >
            {entry.run && <StatusIcon look={runLook(entry.run)} />}
            <span className={css.word}>{entry.word}</span>
            {entry.hint && <code className={css.hint}>{entry.hint}</code>}
          </button>
        ))}
      </div>
      {entries.length === 0 && <p className={css.none}>{m.palette.none}</p>}
    </Dialog>
  );
}

/** The plans whose id contains the text; none while nothing is typed. */
function useFoundPlans(text: string): readonly PalettePlansQuery["plans"]["edges"][number]["node"][] {
  const { last } = useQuery(
    PalettePlansDocument,
    text === "" ? null : { text, first: PLANS },
    ({ plans }) => plans.edges.map(({ node }) => node),
    { after: TYPING_MS },
  );
  // The former answer is kept while the next one is awaited.
  return (text === "" ? [] : (last ?? [])).filter(({ planId }) => planId.toLowerCase().includes(text.toLowerCase()));
}

/** The matching runs; the newest ones while nothing is typed. */
function useFound(text: string): readonly RunRow[] {
  const filter = text === "" ? null : { text };
  // Pages and actions do not wait for the answer.
  const { last } = useQuery(
    RunsDocument,
    { first: RUNS, after: null, filter, orderBy: "CREATED_DESC" },
    ({ runs }) => runs.edges.map((edge) => toRow(edge.node)),
    { after: filter ? TYPING_MS : 0 },
  );
  return last ?? NONE;
}
