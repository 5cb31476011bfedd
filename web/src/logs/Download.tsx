import { DownloadIcon, FileText } from "lucide-react";
import { logWords } from "../messages/log";
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
      <a
        className={css.tool}
        href={address}
        target="_blank"
        rel="noreferrer"
        aria-label={logWords.log.raw}
        title={logWords.log.raw}
      >
        <FileText size={14} aria-hidden="true" /> <span className={css.word}>{logWords.log.raw}</span>
      </a>
      <a
        className={css.tool}
        href={`${address}?download`}
        download
        aria-label={logWords.log.download}
        title={logWords.log.download}
      >
        <DownloadIcon size={14} aria-hidden="true" /> <span className={css.word}>{logWords.log.download}</span>
      </a>
    </>
  );
}
