// The colours of tokens.css for canvases.
import { useSyncExternalStore } from "react";
import { type Tone, TONES } from "./tones";

export type Ink =
  | Tone
  | `${Tone}-tint`
  | "page"
  | "surface"
  | "raised"
  | "text"
  | "secondary"
  | "border"
  | "control"
  | "accent"
  | "hover";
export type Palette = Readonly<Record<Ink, string>>;

const PLAIN = ["page", "surface", "raised", "text", "secondary", "border", "control", "accent", "hover"] as const;
const DARK = "(prefers-color-scheme: dark)";
const FORCED = "(forced-colors: active)";

let held: { theme: string; palette: Palette } | null = null;

/** The present colours; the same object until the theme changes. */
export function usePalette(): Palette {
  return useSyncExternalStore(onTheme, paletteNow);
}

function paletteNow(): Palette {
  const theme = themeNow();
  if (held?.theme !== theme) held = { theme, palette: read() };
  return held.palette;
}

function themeNow(): string {
  return `${document.documentElement.dataset["theme"] ?? ""} ${matchMedia(DARK).matches} ${matchMedia(FORCED).matches}`;
}

function onTheme(listener: () => void): () => void {
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  const queries = [matchMedia(DARK), matchMedia(FORCED)];
  for (const query of queries) query.addEventListener("change", listener);
  return () => {
    observer.disconnect();
    for (const query of queries) query.removeEventListener("change", listener);
  };
}

/** Reads the tokens through an element, because a token may be a function of the theme. */
function read(): Palette {
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;
  const style = getComputedStyle(probe);
  const colour = (ink: Ink): string => {
    probe.style.color = `var(--${ink})`;
    return style.color;
  };
  const inks: Ink[] = [...PLAIN, ...TONES, ...TONES.map((tone): Ink => `${tone}-tint`)];
  const palette = Object.fromEntries(inks.map((ink) => [ink, colour(ink)])) as Record<Ink, string>;
  probe.remove();
  return palette;
}
