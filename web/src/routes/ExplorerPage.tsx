import { Explorer } from "../explorer/Explorer";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import { useDocumentStatus } from "../ui/documentStatus";

export function ExplorerPage() {
  useDocumentStatus(m.explorer.title);
  return (
    <>
      <div className={css.head}>
        <h1>{m.explorer.title}</h1>
        <span className={css.asOf}>{m.explorer.means}</span>
        <a className={css.end} href="/docs/api">
          {m.explorer.reference}
        </a>
      </div>
      <Explorer />
    </>
  );
}
