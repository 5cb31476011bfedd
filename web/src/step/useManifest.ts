import { useEffect, useState } from "react";
import type { Step } from "../api/model";
import { artifactAddress } from "./artifacts";
import { type Manifest, manifestOf, READ_AT_ONCE } from "./manifest";

export type ManifestState =
  | { state: "none" | "reading" | "unreadable"; manifest: null }
  | { state: "large"; manifest: null; bytes: number; read: () => void }
  | { state: "read"; manifest: Manifest };

/**
 * The manifest of dbt among the artifacts of a step. It is only read when it is small or somebody asked, because that of
 * a large project has tens of megabytes.
 */
export function useManifest(runId: string, artifacts: Step["artifacts"]): ManifestState {
  const artifact = artifacts.find(({ kind }) => kind === "manifest" || kind === "dbt-manifest");
  const address = artifact ? artifactAddress(runId, artifact.uri) : null;
  const size = artifact?.sizeBytes ?? 0;
  const [asked, setAsked] = useState(false);
  const [read, setRead] = useState<{ address: string; manifest: Manifest | null } | null>(null);
  const wanted = address !== null && (asked || size <= READ_AT_ONCE) ? address : null;
  useEffect(() => {
    if (wanted === null) return;
    const abort = new AbortController();
    fetch(wanted, { signal: abort.signal })
      .then((response) => (response.ok ? response.json() : Promise.reject(new Error(response.statusText))))
      .then((document: unknown) => setRead({ address: wanted, manifest: manifestOf(document) }))
      .catch(() => abort.signal.aborted || setRead({ address: wanted, manifest: null }));
    return () => abort.abort();
  }, [wanted]);
  if (address === null) return { state: "none", manifest: null };
  if (read?.address === address)
    return read.manifest ? { state: "read", manifest: read.manifest } : { state: "unreadable", manifest: null };
  return wanted === null
    ? { state: "large", manifest: null, bytes: size, read: () => setAsked(true) }
    : { state: "reading", manifest: null };
}
