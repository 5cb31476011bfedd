import { m } from "../messages";
import { explorer as explorerWords } from "../messages/explorer";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { keysInWords, setKeysOn, useKeysOn } from "../ui/keys";
import css from "./Help.module.css";

const NAMES: Record<string, string> = { Escape: "Esc" };

/** The name of a key as printed on a keyboard. */
function keyName(key: string): string {
  return NAMES[key] ?? (/^[A-Z]$/.test(key) ? `Shift ${key}` : key);
}

/** Lists the keys of this page, and turns single keys off. */
export function Help({ close }: { close: () => void }) {
  const on = useKeysOn();
  return (
    <Dialog title={m.help.title} onClose={close}>
      <dl className={css.keys}>
        <Key names={m.help.paletteKey.split(" ")} does={m.palette.title} />
        {keysInWords().map(({ keys, does }) => (
          <Key key={keys} names={keys.split(" ").map(keyName)} does={does} />
        ))}
        {m.help.everywhere.map(([key, does]) => (
          <Key key={key} names={[key]} does={does} />
        ))}
      </dl>
      <label className={css.switch}>
        <input type="checkbox" checked={on} onChange={(event) => setKeysOn(event.target.checked)} /> {m.viewer.keys}
      </label>
      <p className={css.note}>{m.help.note}</p>
      <p className={css.note}>
        <a href="/graphiql">{explorerWords.title}</a> · <a href="/docs/api">{explorerWords.reference}</a> ·{" "}
        <a href="/docs/api#errors">{explorerWords.codes}</a>
      </p>
      <p className={css.end}>
        <Button onClick={close}>{m.help.close}</Button>
      </p>
    </Dialog>
  );
}

function Key({ names, does }: { names: readonly string[]; does: string }) {
  return (
    <div className={css.key}>
      <dt>
        {names.map((name) => (
          <kbd key={name}>{name}</kbd>
        ))}
      </dt>
      <dd>{does}</dd>
    </div>
  );
}
