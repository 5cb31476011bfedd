import { onlyJson, ParamsEditor } from "../forms/ParamsEditor";
import { m } from "../messages";
import { Button } from "../ui/Button";
import css from "./Start.module.css";

interface ParamsFieldProps {
  text: string;
  change: (text: string) => void;
  /** Shown as JSON, because rows hold only one level. */
  raw: boolean;
  setRaw: (raw: boolean) => void;
  problem: string | null;
}

/** The part of the form with the parameters of the run. */
export function ParamsField({ text, change, raw, setRaw, problem }: ParamsFieldProps) {
  const only = onlyJson(text);
  return (
    <section className={css.part}>
      <div className={css.partHead}>
        <h2>3 {m.start.parts.params}</h2>
        <Button kind="quiet" pressed={raw || only !== null} refusal={only} onClick={() => setRaw(!raw)}>
          JSON
        </Button>
      </div>
      <ParamsEditor text={text} change={change} raw={raw} label={m.start.paramsJson} problem={problem} />
    </section>
  );
}
