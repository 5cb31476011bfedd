// The parameters of the new run in the dialog of a rerun.
import { useState } from "react";
import { onlyJson, ParamsEditor } from "../forms/ParamsEditor";
import { m } from "../messages";
import css from "../styles/Confirm.module.css";
import { Button } from "../ui/Button";
import { useRunParams } from "./RunParams";

interface RerunParamsProps {
  runId: string;
  /** As JSON text; empty keeps those of the run. */
  text: string;
  change: (text: string) => void;
  /** The error of the text; null when it is valid. */
  problem: string | null;
  legend?: string;
}

/** A form that begins with the parameters of the run. While nothing is changed, the new run keeps them. */
export function RerunParams({ runId, text, change, problem, legend = m.confirm.params }: RerunParamsProps) {
  const own = useRunParams({ runId });
  const [raw, setRaw] = useState(false);
  if (own === undefined) return <p className={css.hint}>{m.details.reading}</p>;
  const written = own === null || Object.keys(own).length === 0 ? "" : JSON.stringify(own, null, 2);
  const shown = text === "" ? written : text;
  const only = onlyJson(shown);
  return (
    <fieldset className={css.choice}>
      <legend>{legend}</legend>
      <div className={css.tools}>
        <Button kind="quiet" pressed={raw || only !== null} refusal={only} onClick={() => setRaw(!raw)}>
          JSON
        </Button>
        {text !== "" && (
          <Button kind="quiet" onClick={() => change("")}>
            {m.confirm.ownAgain}
          </Button>
        )}
      </div>
      <ParamsEditor
        text={shown}
        // No parameter at all is written as an empty object, because an empty text keeps those of the run.
        change={(next) => change(next === "" && written !== "" ? "{}" : next === written ? "" : next)}
        raw={raw}
        label={m.start.paramsJson}
        problem={problem}
      />
      {problem === null && text !== "" && own !== null && (
        <ul className={css.list} data-testid="params-changed">
          {changesOf(own, text).map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
    </fieldset>
  );
}

function value(of: unknown): string {
  return typeof of === "string" ? of : JSON.stringify(of);
}

/** The parameters that the text changes, in words. The text must be a JSON object. */
export function changesOf(own: Readonly<Record<string, unknown>>, text: string): string[] {
  const next = JSON.parse(text) as Record<string, unknown>;
  const lines = [...new Set([...Object.keys(own), ...Object.keys(next)])].flatMap((name) => {
    if (!(name in next)) return [m.confirm.paramRemoved(name, value(own[name]))];
    if (!(name in own)) return [m.confirm.paramAdded(name, value(next[name]))];
    const [from, to] = [value(own[name]), value(next[name])];
    return from === to ? [] : [m.confirm.paramChanged(name, from, to)];
  });
  return lines.length === 0 ? [m.confirm.paramsSame] : lines;
}
