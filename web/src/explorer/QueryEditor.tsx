// The field for the query: CodeMirror with completion, colours and marks from the schema. It lives in a shadow root,
// because there it writes its styles as constructed style sheets, which the content policy permits.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { graphql, updateSchema } from "cm6-graphql";
import { buildSchema } from "graphql";
import { useEffect, useRef } from "react";
import { explorer as explorerWords } from "../messages/explorer";
import css from "./Explorer.module.css";

/** The colours are tokens of the page; custom properties reach into a shadow root. */
const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.definitionKeyword], color: "var(--paused)" },
  { tag: [tags.propertyName, tags.attributeName], color: "var(--accent)" },
  { tag: [tags.variableName, tags.special(tags.name), tags.atom], color: "var(--person)" },
  { tag: [tags.string, tags.number, tags.bool], color: "var(--success)" },
  { tag: tags.comment, color: "var(--secondary)" },
]);

const THEME = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--page)", fontSize: "12.5px", minHeight: "300px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", minHeight: "300px" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--secondary)", border: "none" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--running-tint) !important",
  },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--border)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--hover)", color: "var(--text)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { maxHeight: "none" },
  ".cm-completionInfo": { maxWidth: "320px" },
});

/**
 * Replaces selected text by what is typed. Chromium would merge the lines itself and write styles into them, which the
 * content policy refuses.
 */
function replaceSelected(event: InputEvent, view: EditorView): boolean {
  if (event.inputType !== "insertText" || event.data === null) return false;
  // The selection of the editor follows that of the browser a moment later.
  const { main } = view.state.selection;
  const [from, to] = selectedIn(view) ?? [main.from, main.to];
  if (from === to) return false;
  event.preventDefault();
  view.dispatch({
    changes: { from, to, insert: event.data },
    selection: { anchor: from + event.data.length },
    userEvent: "input.type",
    scrollIntoView: true,
  });
  return true;
}

/** The selection of the browser as positions of the text. Only Chromium tells it of a shadow root. */
function selectedIn(view: EditorView): [number, number] | null {
  const root: DocumentOrShadowRoot & { getSelection?: () => Selection | null } = view.root;
  const selection = root.getSelection?.();
  if (!selection?.anchorNode || !selection.focusNode || selection.isCollapsed) return null;
  const anchor = view.posAtDOM(selection.anchorNode, selection.anchorOffset);
  const head = view.posAtDOM(selection.focusNode, selection.focusOffset);
  return [Math.min(anchor, head), Math.max(anchor, head)];
}

interface QueryEditorProps {
  text: string;
  change: (text: string) => void;
  run: () => void;
}

export function QueryEditor({ text, change, run }: QueryEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const latest = useRef({ change, run });
  latest.current = { change, run };
  const first = useRef(text);
  useEffect(() => {
    const at = host.current;
    if (!at) return;
    const root = at.shadowRoot ?? at.attachShadow({ mode: "open" });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          // Before the other keys, which would break the line.
          keymap.of([{ key: "Mod-Enter", run: () => (latest.current.run(), true) }]),
          lineNumbers(),
          history(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          // All of them are in sight: a list that scrolls could not be scrolled by keys alone.
          autocompletion({ maxRenderedOptions: 10 }),
          lintGutter(),
          syntaxHighlighting(COLOURS),
          THEME,
          ...graphql(),
          // Tab leaves the editor, so that the page can be used by keys.
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": explorerWords.query, tabindex: "0" }),
          EditorView.domEventHandlers({ beforeinput: replaceSelected }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.change(update.state.doc.toString());
          }),
        ],
      }),
    });
    let here = true;
    // Without the schema the editor colours, but neither completes nor marks.
    fetch("/schema.graphqls")
      .then((answer) => answer.text())
      .then((schema) => here && updateSchema(view, buildSchema(schema, { assumeValidSDL: true })))
      .catch(() => {});
    return () => {
      here = false;
      view.destroy();
    };
  }, []);
  return <div ref={host} className={css.editor} data-testid="query-editor" />;
}
