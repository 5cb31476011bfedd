import { Link, useLocation } from "@tanstack/react-router";
import type { ReactNode } from "react";
import css from "../styles/Page.module.css";
import { m } from "../messages";
import { explorer as explorerWords } from "../messages/explorer";
import { useDocumentStatus } from "../ui/documentStatus";

/** Replaces the page of an address that dvt does not have: it names the address and leads to what people look for. */
export function NotFound(): ReactNode {
  const path = useLocation({ select: ({ pathname }) => pathname });
  useDocumentStatus(m.page.noPageTitle);
  return (
    <div className={css.notice}>
      <h1 className={css.noticeTitle}>
        {m.page.noPage} <code className={css.address}>{path}</code>
      </h1>
      <p>{m.page.noPageMeans}</p>
      <ul className={css.ways}>
        <li>
          <Link to="/">{m.attention.title}</Link>
        </li>
        <li>
          <Link to="/runs" search={{}}>
            {m.run.toRuns}
          </Link>
        </li>
        <li>
          <Link to="/plans" search={{}}>
            {m.plans.toPlans}
          </Link>
        </li>
        <li>
          <a href="/docs">{m.page.docs}</a>
        </li>
        <li>
          <a href="/docs/api">{explorerWords.reference}</a>
        </li>
      </ul>
      <p>{m.page.helpKey}</p>
    </div>
  );
}
