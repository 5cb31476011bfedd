import { DownloadIcon, FileText } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { saveBlob } from "../ui/saveFile";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { wholeLog } from "./download";
import { type LogOf, sourceOf } from "./useLog";

const SHOWN_MS = 60_000;

/** Shows the text in a tab that the click has opened: browsers block a tab that is opened later. */
function show(tab: Window | null, text: Blob): void {
  const url = URL.createObjectURL(text);
  if (tab) tab.location.href = url;
  setTimeout(() => URL.revokeObjectURL(url), SHOWN_MS);
}

/** Downloads the whole log as a tab or as a file, and shows the progress. */
export function Download({ of }: { of: LogOf }) {
  const [share, setShare] = useState<number | null>(null);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const load = (give: (text: Blob) => void, fail: () => void): void => {
    const going = new AbortController();
    abort.current = going;
    setShare(0);
    wholeLog(sourceOf(of), (lines, total) => setShare(total === 0 ? 1 : lines / total), going.signal)
      .then(give)
      .catch(fail)
      .finally(() => setShare(null));
  };
  const raw = (): void => {
    const tab = open("about:blank");
    load(
      (text) => show(tab, text),
      () => tab?.close(),
    );
  };
  const refusal = share === null ? null : m.log.downloading(Math.floor(share * 100));
  return (
    <>
      <Button onClick={raw} refusal={refusal}>
        <FileText size={14} aria-hidden="true" /> {m.log.raw}
      </Button>
      <Button
        onClick={() =>
          load(
            (text) => saveBlob(`${of.runId}-${of.stepId}-${of.attempt}.log`, text),
            () => {},
          )
        }
        refusal={refusal}
      >
        <DownloadIcon size={14} aria-hidden="true" /> {m.log.download}
      </Button>
    </>
  );
}
