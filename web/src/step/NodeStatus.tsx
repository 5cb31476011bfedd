import { CircleCheck, CircleQuestionMark, LoaderCircle, OctagonX, SkipForward, TriangleAlert } from "lucide-react";
import { models } from "../messages/artifacts";
import type { Look, Tone } from "../ui/tones";
import { DBT_TONES } from "./dbt";
import css from "./StepModels.module.css";

const ICONS: Partial<Record<Tone, Look["icon"]>> = {
  running: LoaderCircle,
  success: CircleCheck,
  failed: OctagonX,
  person: TriangleAlert,
  skipped: SkipForward,
};

/** The tones of the statuses of nodes in the log. */
const NODE_TONES: Readonly<Record<string, Tone>> = {
  RUNNING: "running",
  SUCCESS: "success",
  WARN: "person",
  FAILED: "failed",
  SKIPPED: "skipped",
};

/** A status of dbt or of a node in the log, as icon and word. */
export function Status({ status }: { status: string }) {
  const tone = DBT_TONES[status] ?? NODE_TONES[status];
  const Icon = (tone && ICONS[tone]) ?? CircleQuestionMark;
  return (
    <span data-tone={tone} className={css.word}>
      <Icon size={14} aria-hidden="true" /> {models.word(status)}
    </span>
  );
}
