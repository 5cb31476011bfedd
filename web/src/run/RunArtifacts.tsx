import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { useEffect, useRef } from "react";
import { type ArtifactFieldsFragment, ArtifactsDocument } from "../api/gen/graphql";
import { useConnection } from "../api/useConnection";
import { expiryWords } from "../artifacts/expiry";
import css from "../artifacts/Artifacts.module.css";
import { m } from "../messages";
import { artifactWords as words } from "../messages/artifacts";
import { List } from "../page/List";
import { useOrder, useRunState, useRunStore } from "../runstate/context";
import { RESET_STEP_PARAMS } from "../address/views";
import { attemptName, bytes } from "../format/format";
import { stepTitle } from "../format/stepTitle";
import { artifactKind, Digest } from "../step/Artifact";
import { Notice } from "../ui/Page";
import type { Column } from "../ui/Table";
import { useZone } from "../ui/Time";

const KINDS = ["dbt-manifest", "dbt-run-results", "dataset-sample", "log-bundle", "custom"];

/** The artifacts of a run, of all attempts, with a filter by step and kind. */
export default function RunArtifacts({ runId }: { runId: string }) {
  const store = useRunStore();
  const order = useOrder();
  const zone = useZone();
  const { of: stepId = "", kind = "" } = useSearch({ from: "/runs/$runId" });
  const navigate = useNavigate({ from: "/runs/$runId" });
  const pages = useConnection(
    ArtifactsDocument,
    { runId, stepId: stepId === "" ? null : stepId, kinds: kind === "" ? null : [kind] },
    ({ run }) => run?.artifactList ?? null,
  );
  useRefresh(pages.refresh);
  const title = (id: string): string => stepTitle(id, store.step(id)?.name ?? null);
  const columns: Column<ArtifactFieldsFragment>[] = [
    {
      head: m.artifacts.file,
      main: true,
      cell: (artifact) => <FileLink runId={runId} artifact={artifact} />,
    },
    { head: m.artifacts.kind, cell: (artifact) => artifactKind(artifact.kind) },
    {
      head: m.artifacts.step,
      cell: ({ stepId: of, attempt }) =>
        of !== null && (
          <span>
            <Link
              from="/runs/$runId"
              to="."
              search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: of, tab: "artifacts" })}
            >
              {title(of)}
            </Link>
            {attempt !== null && attempt > 1 && ` · ${attemptName(attempt)}`}
          </span>
        ),
    },
    { head: m.artifacts.size, cell: ({ sizeBytes }) => sizeBytes !== null && bytes(sizeBytes) },
    { head: words.type, wide: true, cell: ({ contentType }) => contentType },
    { head: words.expires, cell: ({ expiresAt }) => expiryWords(expiresAt, Date.now(), zone) },
    { head: m.artifacts.sha256, wide: true, cell: ({ sha256 }) => sha256 !== null && <Digest sha256={sha256} /> },
    {
      head: words.download,
      cell: ({ downloadUrl, fileName }) =>
        downloadUrl !== null && (
          <a href={downloadUrl} download aria-label={m.artifacts.download(fileName ?? "")}>
            <Download size={14} aria-hidden="true" />
          </a>
        ),
    },
  ];
  const choose = (next: { of?: string | undefined; kind?: string | undefined }): void =>
    void navigate({ search: (old) => ({ ...old, ...next }), replace: true });
  const filtered = stepId !== "" || kind !== "";
  if (pages.rows?.length === 0 && !filtered) return <Notice title={m.artifacts.none} />;
  return (
    <>
      <div className={css.tools}>
        <select
          aria-label={m.artifacts.step}
          value={stepId}
          onChange={({ target }) => choose({ of: target.value === "" ? undefined : target.value })}
        >
          <option value="">{words.allSteps}</option>
          {order
            .filter((id) => id === stepId || (store.step(id)?.artifacts.length ?? 0) > 0)
            .map((id) => (
              <option key={id} value={id}>
                {title(id)}
              </option>
            ))}
        </select>
        <select
          aria-label={m.artifacts.kind}
          value={kind}
          onChange={({ target }) => choose({ kind: target.value === "" ? undefined : target.value })}
        >
          <option value="">{words.allKinds}</option>
          {KINDS.map((one) => (
            <option key={one} value={one}>
              {artifactKind(one)}
            </option>
          ))}
        </select>
      </div>
      <List
        label={m.run.tabs.artifacts}
        pages={pages}
        columns={columns}
        rowKey={({ uri }) => uri}
        empty={words.noneMatch}
      />
    </>
  );
}

function FileLink({ runId, artifact }: { runId: string; artifact: ArtifactFieldsFragment }) {
  const { uri, fileName, downloadUrl } = artifact;
  if (downloadUrl === null) return <code>{uri}</code>;
  return (
    <Link to="/runs/$runId/artifact" params={{ runId }} search={{ uri }} aria-label={words.open(fileName ?? uri)}>
      {fileName}
    </Link>
  );
}

/** Reads the list again when a step of the run reports more artifacts. */
function useRefresh(refresh: () => void): void {
  const order = useOrder();
  const reported = useRunState((store) => order.reduce((sum, id) => sum + (store.step(id)?.artifacts.length ?? 0), 0));
  const seen = useRef(reported);
  useEffect(() => {
    if (seen.current === reported) return;
    seen.current = reported;
    refresh();
  }, [reported, refresh]);
}
