import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { m } from "../messages";
import type { AuditSearch } from "./AuditFilterForm";
import css from "../styles/Form.module.css";

/**
 * Says whether the records that seal the logs of runs are in the list, and changes it. Without them numbers are missing.
 */
export function Seals({ search, shown }: { search: AuditSearch; shown: boolean }): ReactNode {
  return (
    <p className={css.note}>
      {shown ? m.audit.sealsShown : m.audit.sealsHidden}{" "}
      <Link to="/audit" search={{ ...search, seals: shown ? undefined : "yes" }}>
        {shown ? m.audit.hideSeals : m.audit.showSeals}
      </Link>
    </p>
  );
}
