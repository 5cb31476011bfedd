import { Explorer } from "../explorer/Explorer";
import { explorer as explorerWords } from "../messages/explorer";
import css from "../styles/Form.module.css";
import { useDocumentStatus } from "../ui/documentStatus";

export function ExplorerPage() {
  useDocumentStatus(explorerWords.title);
  return (
    <>
      <div className={css.head}>
        <h1>{explorerWords.title}</h1>
        <span className={css.asOf}>{explorerWords.means}</span>
        <a className={css.end} href="/docs/api">
          {explorerWords.reference}
        </a>
      </div>
      <Explorer />
    </>
  );
}
