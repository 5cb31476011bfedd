import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { m } from "../messages";
import { PageHead } from "../page/List";
import { PlansTable, usePlans } from "../plans/PlansOverview";
import css from "../styles/Form.module.css";
import page from "../styles/Page.module.css";
import { useDocumentStatus } from "../ui/documentStatus";

const route = getRouteApi("/plans");
const PAUSE_MS = 300;

export function PlansPage() {
  useDocumentStatus(m.plans.title);
  const { project, env, q } = route.useSearch();
  const navigate = route.useNavigate();
  const pages = usePlans({ projectId: project, environmentId: env, text: q });
  const [text, setText] = useState(q ?? "");
  useEffect(() => setText(q ?? ""), [q]);
  useEffect(() => {
    if (text === (q ?? "")) return;
    const timer = setTimeout(
      () => void navigate({ search: (old) => ({ ...old, q: text === "" ? undefined : text }), replace: true }),
      PAUSE_MS,
    );
    return () => clearTimeout(timer);
  }, [text, q, navigate]);
  return (
    <div className={page.measure}>
      <PageHead title={m.plans.title} asOf={pages.asOf} refresh={pages.refresh} repeated />
      <div className={css.row}>
        <label className={css.field}>
          <span>{m.plans.filter}</span>
          <input type="search" value={text} maxLength={200} onChange={(event) => setText(event.target.value)} />
        </label>
      </div>
      <PlansTable pages={pages} searched={q !== undefined} narrowed />
    </div>
  );
}
