import { DownloadIcon, FileText } from "lucide-react";
import { m } from "../messages";
import css from "./LogView.module.css";
import type { LogOf } from "./useLog";

/** The address of the whole log as plain text. Anybody who may read the run can open it. */
export function logAddress({ runId, stepId, attempt }: LogOf): string {
  return `/logs/${encodeURIComponent(runId)}/${encodeURIComponent(stepId)}/${attempt}`;
}

/** Links to the whole log: as a page, and as a file. */
export function Download({ of }: { of: LogOf }) {
  const address = logAddress(of);
  return (
    <>
      <a className={css.tool} href={address} target="_blank" rel="noreferrer" aria-label={m.log.raw} title={m.log.raw}>
        <FileText size={14} aria-hidden="true" /> <span className={css.word}>{m.log.raw}</span>
      </a>
      <a className={css.tool} href={`${address}?download`} download aria-label={m.log.download} title={m.log.download}>
        <DownloadIcon size={14} aria-hidden="true" /> <span className={css.word}>{m.log.download}</span>
      </a>
    </>
  );
}
