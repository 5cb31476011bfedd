// The tones of statuses: each is a colour of tokens.css, and never the only sign of a status.
import type { LucideIcon } from "lucide-react";

export const TONES = [
  "pending",
  "approved",
  "running",
  "paused",
  "person",
  "success",
  "failed",
  "cancelled",
  "skipped",
  "unknown",
] as const;
export type Tone = (typeof TONES)[number];

export interface Look {
  tone: Tone;
  word: string;
  icon: LucideIcon;
}
