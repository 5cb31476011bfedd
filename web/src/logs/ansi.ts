import Anser from "anser";

export interface Span {
  text: string;
  /** `ansi-red`, or empty for the default colour. */
  colour: string;
  bold: boolean;
}

// Escape sequences that remain after the colours are read, and other control characters.
// oxlint-disable-next-line no-control-regex
const SHAPELESS = /\u001B\[[0-?]*[ -/]*[@-~]|[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g;

// Sequences with a text for the terminal, such as the title of its window, and the short ones.
// oxlint-disable-next-line no-control-regex
const UNSEEN = /\u001B(?:[\]PX^_][^\u0007\u001B]*(?:\u0007|\u001B\\)?|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/g;

/** A printed line as spans of plain text. No part of it is read as HTML. */
export function spans(text: string): Span[] {
  if (!text.includes("\u001B")) return [{ text: text.replace(SHAPELESS, ""), colour: "", bold: false }];
  return Anser.ansiToJson(text.replace(UNSEEN, ""), { use_classes: true, remove_empty: true, json: true }).map(
    (part) => ({
      text: part.content.replace(SHAPELESS, ""),
      colour: (part.fg ?? "").replace("bright-", ""),
      bold: part.decorations.includes("bold"),
    }),
  );
}

export interface MarkedSpan extends Span {
  match: boolean;
}

/** The spans of a line, divided where they contain the text that is searched for. */
export function markedSpans(text: string, find: string): MarkedSpan[] {
  return spans(text).flatMap((span) => {
    if (find === "" || !span.text.includes(find)) return [{ ...span, match: false }];
    return span.text
      .split(find)
      .flatMap((part, i) => [
        ...(i > 0 ? [{ ...span, text: find, match: true }] : []),
        ...(part !== "" ? [{ ...span, text: part, match: false }] : []),
      ]);
  });
}
