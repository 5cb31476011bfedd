import { Download, ExternalLink } from "lucide-react";
import { useEffect, useState } from "react";
import type { Step } from "../api/model";
import { m } from "../messages";
import { bytes } from "../format/format";
import { Button } from "../ui/Button";
import { CopyText } from "../ui/CopyText";
import prose from "../styles/Prose.module.css";
import { artifactAddress, formatted, isReadable } from "./artifacts";
import css from "./StepPanel.module.css";

type ArtifactOf = Step["artifacts"][number];

const SHORT_HASH = 12;
/** The part of a text that the preview shows. */
const PREVIEW_BYTES = 64 << 10;

/** The digest of an artifact; the button copies all of it. */
export function Digest({ sha256 }: { sha256: string }) {
  return <CopyText name={m.artifacts.sha256} text={sha256} shown={`${sha256.slice(0, SHORT_HASH)}…`} />;
}

/** Links that open and download an artifact, and the text of one that can be read here. */
export function ArtifactLinks({ runId, artifact }: { runId: string; artifact: ArtifactOf }) {
  const [shown, setShown] = useState(false);
  const address = artifactAddress(runId, artifact.uri);
  if (address === null) return <code>{artifact.uri}</code>;
  const name = decodeURIComponent(address.slice(address.lastIndexOf("/") + 1));
  return (
    <>
      <a href={address} target="_blank" rel="noreferrer">
        {name} <ExternalLink size={13} aria-hidden="true" />
      </a>{" "}
      <a href={`${address}?download`} download aria-label={m.artifacts.download(name)}>
        <Download size={14} aria-hidden="true" />
      </a>{" "}
      {isReadable(name) && (
        <Button kind="quiet" pressed={shown} onClick={() => setShown(!shown)}>
          {m.artifacts.preview}
        </Button>
      )}
      {shown && <Preview address={address} name={name} size={artifact.sizeBytes} />}
    </>
  );
}

function Preview({ address, name, size }: { address: string; name: string; size: number | null }) {
  const [text, setText] = useState<string | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    fetch(address, { headers: { Range: `bytes=0-${PREVIEW_BYTES - 1}` }, signal: abort.signal })
      .then((response) => (response.ok ? response.text() : Promise.reject(new Error(response.statusText))))
      .then((said) => setText(formatted(name, said)))
      .catch(() => abort.signal.aborted || setFailed(true));
    return () => abort.abort();
  }, [address, name]);
  if (failed) return <p className={css.quiet}>{m.artifacts.unreadable}</p>;
  return (
    <>
      <pre className={`${prose.said} ${css.preview}`} tabIndex={0} aria-label={m.artifacts.previewOf(name)}>
        {text ?? m.sync.LOADING}
      </pre>
      {size !== null && size > PREVIEW_BYTES && <p className={css.quiet}>{m.artifacts.cut(bytes(PREVIEW_BYTES))}</p>}
    </>
  );
}

/** The kind of an artifact in words. */
export function artifactKind(kind: string): string {
  return m.artifacts.kinds[kind] ?? kind;
}
