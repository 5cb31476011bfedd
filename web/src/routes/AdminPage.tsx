import { getRouteApi, Link } from "@tanstack/react-router";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import { PolicyPanel } from "../admin/PolicyPanel";
import { QuotasPanel } from "../admin/QuotasPanel";
import { ServicePanel } from "../admin/ServicePanel";
import { TokensPanel } from "../admin/TokensPanel";
import { Gate } from "../session/MayNot";
import { useDocumentStatus } from "../ui/documentStatus";
import { lazyPart } from "../ui/lazyPart";
import type { AdminPart } from "./search";
import page from "../styles/Page.module.css";

const SecretReadsPanel = lazyPart(() => import("../admin/SecretReadsPanel").then((part) => part.SecretReadsPanel));
const ErasurePanel = lazyPart(() => import("../admin/ErasurePanel").then((part) => part.ErasurePanel));
const RetentionPanel = lazyPart(() => import("../admin/RetentionPanel").then((part) => part.RetentionPanel));

const route = getRouteApi("/admin/$part");

const PANELS = {
  tokens: TokensPanel,
  policy: () => (
    <Gate action="READ_POLICY" title={m.policy.title}>
      <PolicyPanel />
    </Gate>
  ),
  quotas: QuotasPanel,
  service: ServicePanel,
  secrets: () => (
    <Gate action="READ_AUDIT" title={m.admin.parts.secrets}>
      <SecretReadsPanel />
    </Gate>
  ),
  retention: () => (
    <Gate action="READ_POLICY" title={m.admin.parts.retention}>
      <RetentionPanel />
    </Gate>
  ),
  erasure: () => (
    <Gate action="READ_AUDIT" title={m.admin.parts.erasure}>
      <ErasurePanel />
    </Gate>
  ),
} as const satisfies Record<AdminPart, () => React.ReactNode>;

export function AdminPage() {
  const { part } = route.useParams();
  useDocumentStatus(`${m.admin.title}: ${m.admin.parts[part]}`);
  const Panel = PANELS[part];
  return (
    <div className={page.measure}>
      <nav className={css.tabs} aria-label={m.admin.title}>
        {(Object.keys(PANELS) as AdminPart[]).map((other) => (
          <Link key={other} to="/admin/$part" params={{ part: other }}>
            {m.admin.parts[other]}
          </Link>
        ))}
      </nav>
      <Panel />
    </div>
  );
}
