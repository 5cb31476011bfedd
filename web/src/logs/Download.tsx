import { DownloadIcon } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { saveBlob } from "../audit/export";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { wholeLog } from "./download";
import { type LogOf, sourceOf } from "./useLog";

/** Gives the browser the whole log as a file, and says how far it is. */
export function Download({ of }: { of: LogOf }) {
  const [share, setShare] = useState<number | null>(null);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const load = (): void => {
    const going = new AbortController();
    abort.current = going;
    setShare(0);
    wholeLog(sourceOf(of), (lines, total) => setShare(total === 0 ? 1 : lines / total), going.signal)
      .then((text) => saveBlob(`${of.runId}-${of.stepId}-${of.attempt}.log`, text))
      .catch(() => {})
      .finally(() => setShare(null));
  };
  return (
    <Button onClick={load} refusal={share === null ? null : m.log.downloading(Math.floor(share * 100))}>
      <DownloadIcon size={14} aria-hidden="true" /> {m.log.download}
    </Button>
  );
}
