// The glyphs of small cells: shape, word and colour, each readable without the others.
import type { CSSProperties } from "react";
import { m } from "../messages";
import { runLook, stepLook } from "../status/look";
import type { PlanRunFieldsFragment } from "../api/gen/graphql";
import type { Step } from "../api/model";
import type { Tone } from "../ui/tones";

const GLYPH: Record<Tone, string> = {
  pending: "○",
  approved: "◎",
  running: "▶",
  paused: "‖",
  person: "◆",
  success: "✓",
  failed: "✕",
  cancelled: "⊘",
  skipped: "»",
  unknown: "?",
};

export interface CellLook {
  glyph: string;
  tone: Tone;
  word: string;
}

export function runCell(run: Pick<PlanRunFieldsFragment, "status" | "statusRaw" | "substatus">): CellLook {
  // A run that has not started and is not in the queue waits for people (contract T36).
  if (run.status === "PENDING" && run.substatus !== "QUEUED")
    return { glyph: GLYPH.person, tone: "person", word: m.plans.waitsForApproval };
  // A cell does not know how many steps of a paused run still run.
  if (run.status === "PAUSED") return { glyph: GLYPH.paused, tone: "paused", word: m.status.paused };
  const { tone, word } = runLook({ ...run, pause: null });
  return { glyph: GLYPH[tone], tone, word };
}

export function stepCell(step: Pick<Step, "status" | "statusRaw"> & { kept?: boolean }): CellLook {
  if (step.kept) return { glyph: "=", tone: "skipped", word: m.plans.kept };
  const { tone, word } = stepLook({ ...step, pendingRetry: false });
  return { glyph: GLYPH[tone], tone, word };
}

/** Each glyph once, with all its words. */
export function looksOf(looks: readonly CellLook[]): CellLook[] {
  const words = new Map<string, Set<string>>();
  const found = new Map<string, CellLook>();
  for (const look of looks) {
    found.set(look.glyph, look);
    words.set(look.glyph, (words.get(look.glyph) ?? new Set()).add(look.word));
  }
  return [...found.values()].map((look) => ({ ...look, word: [...(words.get(look.glyph) ?? [])].join(", ") }));
}

/** The colour of a tone, on its tint. Thousands of cells have it, so it is no rule of a style sheet for each tone. */
export function toneStyle(tone: Tone, tint = true): CSSProperties {
  return { color: `var(--${tone})`, ...(tint ? { background: `var(--${tone}-tint)` } : {}) };
}
