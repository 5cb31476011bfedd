import { Fragment } from "react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { keysInWords, setKeysOn, useKeysOn } from "../ui/keys";
import css from "./Help.module.css";

const NAMES: Record<string, string> = { Escape: "Esc", " ": "Space" };

/** A key as it stands on a keyboard. */
function keyName(key: string): string {
  return NAMES[key] ?? (/^[A-Z]$/.test(key) ? `Shift ${key}` : key);
}

/** What the keys do on this page, and the switch that turns single keys off. */
export function Help({ close }: { close: () => void }) {
  const on = useKeysOn();
  return (
    <Dialog title={m.help.title} onClose={close}>
      <dl className={css.keys}>
        {[{ keys: m.help.paletteKey, does: m.palette.title }, ...keysInWords()].map(({ keys, does }) => (
          <Fragment key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{keyName(key)}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </Fragment>
        ))}
      </dl>
      <label className={css.switch}>
        <input type="checkbox" checked={on} onChange={(event) => setKeysOn(event.target.checked)} /> {m.viewer.keys}
      </label>
      <p className={css.note}>{m.help.note}</p>
      <p className={css.end}>
        <Button onClick={close}>{m.help.close}</Button>
      </p>
    </Dialog>
  );
}
