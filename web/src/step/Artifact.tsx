import { Link } from "@tanstack/react-router";
import { Download } from "lucide-react";
import type { Step } from "../api/model";
import { m } from "../messages";
import { CopyText } from "../ui/CopyText";
import { artifactAddress } from "./artifacts";

type ArtifactOf = Step["artifacts"][number];

const SHORT_HASH = 12;

/** The digest of an artifact; the button copies all of it. */
export function Digest({ sha256 }: { sha256: string }) {
  return <CopyText name={m.artifacts.sha256} text={sha256} shown={`${sha256.slice(0, SHORT_HASH)}…`} />;
}

/** Links that open and download an artifact. */
export function ArtifactLinks({ runId, artifact }: { runId: string; artifact: ArtifactOf }) {
  const address = artifactAddress(runId, artifact.uri);
  if (address === null) return <code>{artifact.uri}</code>;
  const name = decodeURIComponent(address.slice(address.lastIndexOf("/") + 1));
  return (
    <>
      <Link to="/runs/$runId/artifact" params={{ runId }} search={{ uri: artifact.uri }}>
        {name}
      </Link>{" "}
      <a href={address} download aria-label={m.artifacts.download(name)}>
        <Download size={14} aria-hidden="true" />
      </a>
    </>
  );
}

/** The kind of an artifact in words. */
export function artifactKind(kind: string): string {
  return m.artifacts.kinds[kind] ?? kind;
}
