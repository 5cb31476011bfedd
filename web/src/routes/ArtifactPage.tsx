import { getRouteApi, Link } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { useState } from "react";
import { type ArtifactFieldsFragment, ArtifactOfRunDocument, LinkArtifactDocument } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { ArtifactContent } from "../artifacts/Content";
import { expiryWords } from "../artifacts/expiry";
import artifacts from "../artifacts/Artifacts.module.css";
import { useSending } from "../forms/useSending";
import { attemptName, bytes, shortId } from "../format/format";
import { m } from "../messages";
import { artifactWords as words } from "../messages/artifacts";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import css from "../run/Details.module.css";
import { artifactKind, Digest } from "../step/Artifact";
import page from "../styles/Page.module.css";
import pills from "../styles/Pill.module.css";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice, Skeleton } from "../ui/Page";
import { useZone } from "../ui/Time";

const route = getRouteApi("/runs/$runId/artifact");
const MOST = 200;

/** The step of an artifact, which its URI names. */
function stepOf(uri: string): string | null {
  const step = /^artifact:[^/]+\/[^/]+\/([^/]+)\//.exec(uri)?.[1];
  try {
    return step === undefined ? null : decodeURIComponent(step);
  } catch {
    return null;
  }
}

export function ArtifactPage() {
  const { runId } = route.useParams();
  const { uri = "", find = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const {
    answer: artifact,
    error,
    again,
    asOf,
  } = useQuery(
    ArtifactOfRunDocument,
    { runId, stepId: stepOf(uri), first: MOST },
    ({ run }) => run?.artifactList.edges.find(({ node }) => node.uri === uri)?.node ?? null,
  );
  const name = artifact?.fileName ?? uri;
  useDocumentStatus(`${name} · ${shortId(runId)}`);
  if (error && artifact === undefined) return <Problem error={error} retry={again} />;
  if (artifact === undefined) return <Skeleton rows={8} label={m.sync.LOADING} />;
  const back = (
    <Link to="/runs/$runId" params={{ runId }} search={{ view: "artifacts" }}>
      {m.run.tabs.artifacts} · {words.run} {shortId(runId)}
    </Link>
  );
  if (artifact === null)
    return (
      <Notice title={words.gone} heading>
        {back}
      </Notice>
    );
  return (
    <div className={page.measure}>
      <PageHead title={name} asOf={asOf} refresh={again}>
        {back}
      </PageHead>
      <Facts runId={runId} artifact={artifact} />
      {artifact.downloadUrl === null ? (
        <Notice title={words.elsewhere} />
      ) : (
        <>
          <div className={artifacts.tools}>
            <a className={pills.pill} href={artifact.downloadUrl} download>
              <Download size={14} aria-hidden="true" /> {words.download}
            </a>
            <CopyDownload runId={runId} uri={uri} />
            <input
              type="search"
              value={find}
              maxLength={200}
              placeholder={words.find}
              aria-label={words.find}
              onChange={({ target }) =>
                void navigate({
                  search: (old) => ({ ...old, find: target.value === "" ? undefined : target.value }),
                  replace: true,
                })
              }
            />
          </div>
          <ArtifactContent
            key={artifact.uri}
            address={artifact.downloadUrl}
            name={name}
            kind={artifact.kind}
            size={artifact.sizeBytes}
            find={find}
          />
        </>
      )}
    </div>
  );
}

/** Makes a link that downloads the file without sign-in, and copies it. */
function CopyDownload({ runId, uri }: { runId: string; uri: string }) {
  const sending = useSending();
  const copy = async (): Promise<void> => {
    const { linkArtifact } = await request(LinkArtifactDocument, { input: { requestId: newId(), runId, uri } });
    await navigator.clipboard.writeText(location.origin + linkArtifact.path);
    setCopied(true);
  };
  const [copied, setCopied] = useState(false);
  return (
    <>
      <Button onClick={() => sending.send(copy)} refusal={sending.refusal}>
        {words.copyLink}
      </Button>
      <span role="status" className={artifacts.quiet}>
        {sending.error ? sending.error.message : copied ? words.linkCopied : ""}
      </span>
    </>
  );
}

function Facts({ runId, artifact }: { runId: string; artifact: ArtifactFieldsFragment }) {
  const zone = useZone();
  const { kind, stepId, attempt, sizeBytes, contentType, sha256, expiresAt } = artifact;
  return (
    <dl className={css.details}>
      <div className={css.pair}>
        <dt>{m.artifacts.kind}</dt>
        <dd>{artifactKind(kind)}</dd>
      </div>
      {stepId !== null && (
        <div className={css.pair}>
          <dt>{m.artifacts.step}</dt>
          <dd>
            <Link to="/runs/$runId" params={{ runId }} search={{ step: stepId, tab: "artifacts" }}>
              {stepId}
            </Link>
            {attempt !== null && attempt > 1 && ` · ${attemptName(attempt)}`}
          </dd>
        </div>
      )}
      <div className={css.pair}>
        <dt>{m.artifacts.size}</dt>
        <dd>
          {sizeBytes !== null && bytes(sizeBytes)}
          {contentType !== null && ` · ${contentType}`}
        </dd>
      </div>
      <div className={css.pair}>
        <dt>{words.expires}</dt>
        <dd>{expiryWords(expiresAt, Date.now(), zone)}</dd>
      </div>
      {sha256 !== null && (
        <div className={css.pair}>
          <dt>{m.artifacts.sha256}</dt>
          <dd>
            <Digest sha256={sha256} />
          </dd>
        </div>
      )}
    </dl>
  );
}
