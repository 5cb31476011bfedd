// The text of a plan: a textarea with line numbers, marks of the lines with problems, and a list of what may be written
// at the caret. A textarea keeps what people know of the browser: undo, find, spelling of keys, phones, screen readers.
import {
  type DragEvent,
  type KeyboardEvent,
  type Ref,
  useEffect,
  useId,
  useImperativeHandle,
  useRef,
  useState,
} from "react";
import { m } from "../messages";
import { complete, type Completions, loadSchema, type Schema } from "./complete";
import { isWholePlan } from "./language";
import css from "./Start.module.css";

/** The height of a line and the padding of the text, as in the style sheet. */
const LINE = 20;
const PAD = 8;
/** Above this size nothing is offered, because each key would cost too much. */
const MOST = 200_000;
const SHOWN = 12;

export interface LineProblem {
  /** From 1. */
  line: number;
  message: string;
}

export interface PlanEditorHandle {
  /** Selects a part of the text and brings it into sight. */
  select: (from: number, to: number) => void;
}

interface PlanEditorProps {
  text: string;
  change: (text: string) => void;
  problems: readonly LineProblem[];
  invalid: boolean;
  describedBy: string;
  onDrop: (event: DragEvent) => void;
  ref: Ref<PlanEditorHandle>;
}

interface Offer extends Completions {
  chosen: number;
  top: number;
  left: number;
}

/** Writes text in place of a part of the field, so that undo takes it back, and returns the whole text. */
function write(area: HTMLTextAreaElement, from: number, to: number, text: string): string {
  const before = area.value;
  area.focus();
  area.setSelectionRange(from, to);
  // The only way to write that keeps the browser's undo; not every browser has it.
  if ("execCommand" in document) document.execCommand("insertText", false, text);
  return area.value === before ? before.slice(0, from) + text + before.slice(to) : area.value;
}

export function PlanEditor({ text, change, problems, invalid, describedBy, onDrop, ref }: PlanEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const list = useId();
  const [schema, setSchema] = useState<Schema | null>(null);
  const [offer, setOffer] = useState<Offer | null>(null);
  useEffect(() => {
    let here = true;
    void loadSchema().then((found) => here && setSchema(found));
    return () => {
      here = false;
    };
  }, []);
  useImperativeHandle(ref, () => ({
    select: (from, to) => {
      const at = area.current;
      if (!at) return;
      at.focus();
      at.setSelectionRange(from, to);
      const line = at.value.slice(0, from).split("\n").length;
      at.scrollTop = Math.max(0, (line - 3) * LINE);
    },
  }));

  const look = (asked: boolean): void => {
    const at = area.current;
    if (!at || !schema || at.value.length > MOST || at.selectionStart !== at.selectionEnd) return setOffer(null);
    const caret = at.selectionStart;
    const before = at.value.slice(0, caret).split("\n");
    const found = complete(schema, at.value, caret);
    if (!found || (!asked && found.from === caret)) return setOffer(null);
    const column = before.at(-1)?.length ?? 0;
    const width = Number.parseFloat(getComputedStyle(at).fontSize) * 0.6;
    setOffer({
      ...found,
      options: found.options.slice(0, SHOWN),
      chosen: 0,
      top: before.length * LINE + PAD - at.scrollTop,
      left: Math.max(0, Math.min((column - (caret - found.from)) * width + PAD - at.scrollLeft, at.clientWidth - 240)),
    });
  };
  const take = (i: number): void => {
    const at = area.current;
    const option = offer?.options[i];
    if (!at || !offer || !option) return;
    change(write(at, offer.from, at.selectionStart, option.insert));
    setOffer(null);
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    const at = event.currentTarget;
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      look(true);
    } else if (offer && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const n = offer.options.length;
      setOffer({ ...offer, chosen: (offer.chosen + (event.key === "ArrowDown" ? 1 : n - 1)) % n });
    } else if (offer && (event.key === "Enter" || event.key === "Tab") && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      take(offer.chosen);
    } else if (offer && event.key === "Escape") {
      event.preventDefault();
      setOffer(null);
    } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      const line = at.value.slice(0, at.selectionStart).split("\n").at(-1) ?? "";
      const indent = /^\s*/.exec(line)?.[0] ?? "";
      if (indent === "" && !line.endsWith(":")) return;
      event.preventDefault();
      change(write(at, at.selectionStart, at.selectionEnd, `\n${indent}${line.endsWith(":") ? "  " : ""}`));
    }
  };

  const lines = text.split("\n").length;
  const marked = new Map<number, string>();
  for (const { line, message } of problems)
    marked.set(line, marked.has(line) ? `${marked.get(line)}\n${message}` : message);
  return (
    <div className={css.editor} data-invalid={invalid || undefined}>
      <div className={css.gutter} aria-hidden="true">
        <div ref={gutter}>
          {Array.from({ length: lines }, (_, i) => (
            // Lines have no identity beside their number.
            // oxlint-disable-next-line react/no-array-index-key
            <span key={i} data-problem={marked.has(i + 1) || undefined} title={marked.get(i + 1)}>
              {marked.has(i + 1) && "✕ "}
              {i + 1}
            </span>
          ))}
        </div>
      </div>
      <textarea
        ref={area}
        className={css.text}
        rows={text === "" ? 7 : 18}
        wrap="off"
        spellCheck={false}
        autoCapitalize="off"
        autoCorrect="off"
        value={text}
        aria-label={m.start.plan}
        aria-invalid={invalid || undefined}
        aria-describedby={describedBy}
        aria-autocomplete="list"
        aria-controls={offer ? list : undefined}
        aria-activedescendant={offer ? `${list}${offer.chosen}` : undefined}
        onChange={(event) => {
          change(event.target.value);
          look(false);
        }}
        onKeyDown={onKeyDown}
        onClick={() => setOffer(null)}
        onBlur={() => setOffer(null)}
        onPaste={(event) => {
          const at = event.currentTarget;
          const pasted = event.clipboardData.getData("text/plain");
          // A plan within a plan is never meant. The browser can undo it.
          if (at.value.trim() === "" || !isWholePlan(pasted)) return;
          event.preventDefault();
          change(write(at, 0, at.value.length, pasted));
        }}
        onScroll={(event) => {
          gutter.current?.style.setProperty("transform", `translateY(${-event.currentTarget.scrollTop}px)`);
          setOffer(null);
        }}
        onDragOver={(event) => event.preventDefault()}
        onDrop={onDrop}
      />
      {offer && (
        <div
          id={list}
          role="listbox"
          aria-label={m.start.offers}
          className={css.offers}
          ref={(at) => {
            at?.style.setProperty("top", `${offer.top}px`);
            at?.style.setProperty("left", `calc(var(--gutter) + ${offer.left}px)`);
          }}
        >
          {offer.options.map((option, i) => (
            <div
              key={option.label}
              id={`${list}${i}`}
              role="option"
              tabIndex={-1}
              aria-selected={i === offer.chosen}
              // The caret stays where it is.
              onMouseDown={(event) => {
                event.preventDefault();
                take(i);
              }}
            >
              <code>{option.label}</code> <span>{option.detail}</span>
            </div>
          ))}
        </div>
      )}
    </div>
  );
}
