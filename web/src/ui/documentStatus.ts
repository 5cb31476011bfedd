import { useEffect } from "react";
import { m } from "../messages";
import type { Tone } from "./tones";

const MANY = 100;
const SHAPES: Record<"success" | "failed" | "paused" | "other", string> = {
  success: "M8 17l5 5 11-12",
  failed: "M10 10l12 12M22 10L10 22",
  paused: "M12 10v12M20 10v12",
  other: "M12 9l11 7-11 7z",
};
const GLYPHS: Partial<Record<Tone, string>> = {
  success: "✓",
  failed: "✕",
  cancelled: "⊘",
  paused: "⏸",
  person: "✋",
  running: "▶",
};

function shapeOf(tone: Tone): string {
  if (tone === "success") return SHAPES.success;
  if (tone === "failed" || tone === "cancelled") return SHAPES.failed;
  return tone === "paused" || tone === "person" ? SHAPES.paused : SHAPES.other;
}

function favicon(tone: Tone | null): string {
  const style = getComputedStyle(document.documentElement);
  const probe = document.createElement("span");
  probe.style.color = `var(--${tone ?? "accent"})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color || style.color;
  probe.remove();
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="${colour}"/><path d="${tone ? shapeOf(tone) : "M9 16h14M16 9v14"}" fill="none" stroke="white" stroke-width="4" stroke-linecap="round" stroke-linejoin="round"/></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

let text = "";
let waiting = 0;

function write(): void {
  document.title = waiting > 0 ? `(${waiting >= MANY ? `${MANY}+` : waiting}) ${text}` : text;
}

/** Shows the status in the title and the icon of the tab, so that a tab in the background shows it too. */
export function useDocumentStatus(subject: string, tone: Tone | null = null, word: string | null = null): void {
  useEffect(() => {
    const glyph = tone ? (GLYPHS[tone] ?? "○") : null;
    text = [glyph ? `${glyph} ${subject}` : subject, word, m.app].filter((part) => part !== null).join(" · ");
    write();
    document.getElementById("favicon")?.setAttribute("href", favicon(tone));
  }, [subject, tone, word]);
}

/** Puts the number of items that need attention before the title of every page; none for 0. 100 is 100 or more. */
export function useTitleCount(count: number): void {
  useEffect(() => {
    waiting = count;
    if (text !== "") write();
  }, [count]);
}
