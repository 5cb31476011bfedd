import { useEffect, useMemo, useState } from "react";
import { dateMinute } from "../format/format";
import { m } from "../messages";
import { artifactWords as words, models as nodeWords } from "../messages/artifacts";
import { DBT_TONES } from "../step/dbt";
import { formatted } from "../step/artifacts";
import { Button } from "../ui/Button";
import { Notice, Skeleton } from "../ui/Page";
import { useZone } from "../ui/Time";
import models from "../step/StepModels.module.css";
import css from "./Artifacts.module.css";
import { manifestRows, type NodeRow, resultRows } from "./dbtRows";
import { Grid, Lines } from "./Grid";
import { ArtifactError, AT_ONCE_BYTES, type Content, MOST_BYTES, PART_BYTES, readPart } from "./read";
import { MOST_ROWS, type Rows, rowsOf, sampleForm } from "./rows";

interface ContentProps {
  address: string;
  name: string;
  kind: string;
  size: number | null;
  find: string;
}

type DBTForm = "manifest" | "results";

/** The document of dbt that a kind names; earlier versions of dvt wrote shorter names. */
function dbtForm(kind: string): DBTForm | null {
  if (kind === "dbt-manifest" || kind === "manifest") return "manifest";
  return kind === "dbt-run-results" || kind === "run_results" ? "results" : null;
}

/** The content of an artifact, as text or as a table. It is never run or rendered as a page. */
export function ArtifactContent({ address, name, kind, size, find }: ContentProps) {
  const form = dbtForm(kind);
  const [asked, setAsked] = useState(false);
  const most = form === null ? PART_BYTES : MOST_BYTES;
  const large = form !== null && size !== null && size > AT_ONCE_BYTES;
  const wanted = !large || asked;
  const state = useContent(wanted ? address : null, most);
  if (large && size > MOST_BYTES) return <Notice title={words.tooLarge(size, MOST_BYTES)} />;
  if (!wanted)
    return (
      <Notice title={words.large(size ?? 0)}>
        <Button onClick={() => setAsked(true)}>{words.readIt}</Button>
      </Notice>
    );
  if (state === null) return <Skeleton rows={8} label={m.sync.LOADING} />;
  if (state instanceof Error) return <Unreadable error={state} />;
  if (state.binary) return <Notice title={words.binary} />;
  if (state.text === "") return <Notice title={words.empty} />;
  return <Parsed key={address} {...{ name, form, size, find }} content={state} />;
}

/** The beginning of a file; null until it is read. */
function useContent(address: string | null, most: number): Content | Error | null {
  const [read, setRead] = useState<{ address: string; content: Content | Error } | null>(null);
  useEffect(() => {
    if (address === null) return;
    const abort = new AbortController();
    readPart(address, most, abort.signal)
      .then((content) => setRead({ address, content }))
      .catch((cause: unknown) => {
        const content = cause instanceof Error ? cause : new Error(String(cause));
        if (!abort.signal.aborted) setRead({ address, content });
      });
    return () => abort.abort();
  }, [address, most]);
  return read !== null && read.address === address ? read.content : null;
}

function Unreadable({ error }: { error: Error }) {
  const zone = useZone();
  if (error instanceof ArtifactError && error.code === "ARTIFACT_REMOVED") {
    const at = error.expiresAt === null ? null : dateMinute(Date.parse(error.expiresAt), zone);
    return (
      <Notice title={at === null ? words.removed : `${words.removed}: ${words.expiredOn(at)}`}>
        <p>{words.removedMeans}</p>
      </Notice>
    );
  }
  // A connection that ends within the content: the server found that it is torn.
  const torn = error instanceof ArtifactError ? error.code === "ARTIFACT_TORN" : false;
  return (
    <Notice title={torn ? words.torn : words.unreadable}>
      <p>{torn ? words.tornMeans : error.message}</p>
    </Notice>
  );
}

interface ParsedProps {
  name: string;
  form: DBTForm | null;
  size: number | null;
  content: Content;
  find: string;
}

function Parsed({ name, form, size, content, find }: ParsedProps) {
  const [plain, setPlain] = useState(false);
  const nodes = useMemo(() => (form === null ? null : nodesOf(form, content.text)), [form, content]);
  const sample = sampleForm(name);
  const rows = useMemo(
    () => (nodes !== null || sample === null ? null : rowsOf(sample, content.text, content.whole)),
    [nodes, sample, content],
  );
  const table = nodes !== null || rows !== null;
  return (
    <div className={css.content}>
      {!content.whole && <p className={css.quiet}>{words.cut(PART_BYTES, size)}</p>}
      {rows?.cut && content.whole && !plain && <p className={css.quiet}>{words.cutRows(MOST_ROWS)}</p>}
      {!plain && nodes !== null && form !== null && <Nodes {...{ form, nodes, find }} />}
      {!plain && rows !== null && <Sample {...{ rows, find }} />}
      {(plain || !table) && <Text name={name} text={content.text} find={find} />}
      {table && (
        <p>
          <Button kind="quiet" onClick={() => setPlain(!plain)}>
            {plain ? words.asTable : words.asText}
          </Button>
        </p>
      )}
    </div>
  );
}

function nodesOf(form: DBTForm, text: string): NodeRow[] | null {
  try {
    const document: unknown = JSON.parse(text);
    const rows = form === "manifest" ? manifestRows(document) : resultRows(document);
    return rows.length === 0 ? null : rows;
  } catch {
    return null;
  }
}

function contains(texts: readonly string[], find: string): boolean {
  const part = find.trim().toLowerCase();
  return part === "" || texts.some((text) => text.toLowerCase().includes(part));
}

/** How many of the rows are shown. */
function Found({ shown, all, what }: { shown: number; all: number; what: string }) {
  return (
    <p className={css.quiet} role="status">
      {shown === 0 ? words.noneFound : words.found(shown, all, what)}
    </p>
  );
}

const WIDTHS: Readonly<Record<DBTForm, readonly string[]>> = {
  manifest: ["minmax(200px, 2fr)", "90px", "110px", "80px", "80px", "80px", "minmax(180px, 2fr)"],
  results: ["minmax(200px, 2fr)", "120px", "90px", "100px", "minmax(240px, 3fr)"],
};

function Nodes({ form, nodes, find }: { form: DBTForm; nodes: readonly NodeRow[]; find: string }) {
  const shown = useMemo(() => nodes.filter(({ id, cells }) => contains([id, ...cells], find)), [nodes, find]);
  return (
    <>
      <Found shown={shown.length} all={nodes.length} what={words.node} />
      <Grid
        label={m.artifacts.kinds[form === "manifest" ? "manifest" : "run_results"] ?? ""}
        heads={form === "manifest" ? words.manifestHeads : words.resultHeads}
        widths={WIDTHS[form]}
        rows={shown.map(({ cells }) => cells)}
        cell={(row, column) => {
          const status = shown[row]?.status;
          return column === 1 && status ? (
            <span className={models.word} data-tone={DBT_TONES[status]}>
              {nodeWords.word(status)}
            </span>
          ) : null;
        }}
      />
    </>
  );
}

function Sample({ rows: { heads, rows }, find }: { rows: Rows; find: string }) {
  const shown = useMemo(() => rows.filter((cells) => contains(cells, find)), [rows, find]);
  return (
    <>
      <Found shown={shown.length} all={rows.length} what={words.row} />
      <Grid label={m.artifacts.file} heads={heads} rows={shown} />
    </>
  );
}

function Text({ name, text, find }: { name: string; text: string; find: string }) {
  const lines = useMemo(
    () =>
      formatted(name, text)
        .split("\n")
        .map((line, i) => ({ no: i + 1, text: line })),
    [name, text],
  );
  const shown = useMemo(() => lines.filter((line) => contains([line.text], find)), [lines, find]);
  return (
    <>
      <Found shown={shown.length} all={lines.length} what={words.line} />
      <Lines label={m.artifacts.previewOf(name)} lines={shown} />
    </>
  );
}
