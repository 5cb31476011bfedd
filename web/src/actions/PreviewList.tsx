import { Copy } from "lucide-react";
import { useMemo } from "react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import css from "../styles/Confirm.module.css";
import { previewLines, withNames } from "./previewWords";
import type { Preview } from "./usePreview";

interface PreviewListProps {
  preview: Preview;
  /** The step that the action is on. */
  stepId: string | null;
  /** What the action means for the run, see `consequences`. */
  consequences?: readonly string[];
  /** The name of a step for people. */
  nameOf?: (stepId: string) => string;
  /** The steps of the run, whose ids the server's sentences may have. */
  steps?: readonly string[];
}

const NONE: readonly string[] = [];

/** The server's preview, as a list. */
export function PreviewList({
  preview,
  stepId,
  consequences = [],
  nameOf = (id) => id,
  steps = NONE,
}: PreviewListProps) {
  const known = useMemo(() => new Set(steps), [steps]);
  const { outcome, code, reason, warnings } = preview;
  return (
    <div data-testid="preview" data-outcome={outcome}>
      {warnings.length > 0 && (
        <ul className={css.warnings}>
          {warnings.map((warning) => (
            <li key={warning}>{withNames(warning, known, nameOf)}</li>
          ))}
        </ul>
      )}
      <ul className={css.list}>
        <li>
          {reason === null ? m.confirm.outcome[outcome] : withNames(reason, known, nameOf)}{" "}
          {outcome !== "APPLY" && code && <code>{code}</code>}
        </li>
        {consequences.map((words) => (
          <li key={words}>{words}</li>
        ))}
        {previewLines(preview, stepId, nameOf).map((line) => (
          <li key={`${line.stepId} ${line.text}`}>
            {line.stepId !== null && <strong title={line.stepId}>{nameOf(line.stepId)}: </strong>}
            {line.text}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Copies a text that asks another person to do it. */
export function CopyRequest({ text }: { text: string }) {
  return (
    <Button kind="quiet" onClick={() => void navigator.clipboard.writeText(text)}>
      <Copy size={14} aria-hidden="true" /> {m.denied.copyRequest}
    </Button>
  );
}
