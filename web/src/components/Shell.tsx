import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";
import { receipts, useReceipts, useViewer } from "../actions/context";
import { settled } from "../actions/receipts";
import { Tray } from "../actions/Tray";
import { type ViewerQuery, ViewerDocument } from "../api/gen/graphql";
import { toSignal } from "../api/model";
import { request } from "../api/request";
import { m } from "../messages";
import { usePreference } from "../ui/preference";
import { useZone } from "../ui/Time";
import type { Zone } from "../ui/format";
import css from "./Shell.module.css";
import { ServiceBanner } from "./ServiceBanner";
import { SignOut } from "./SignIn";

export type Viewer = ViewerQuery["viewer"];

const MOVING_POLL_MS = 5_000;
const PAGES = [
  { to: "/runs", name: "runs" },
  { to: "/inbox", name: "inbox" },
  { to: "/queue", name: "queue" },
  { to: "/dlq", name: "dlq" },
  { to: "/audit", name: "audit" },
  { to: "/admin", name: "admin" },
  { to: "/health", name: "health" },
] as const;
const THEMES = ["system", "light", "dark"] as const;

interface ShellProps {
  viewer: Viewer;
  setZone: (zone: Zone) => void;
  children: ReactNode;
}

export function Shell({ viewer, setZone, children }: ShellProps) {
  const zone = useZone();
  const [theme, setTheme] = usePreference("dvt.theme", THEMES, "system");
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  useOwnReceipts();
  return (
    <>
      <a className={css.skip} href="#main">
        Skip to content
      </a>
      <header className={css.bar}>
        <Link to="/runs" className={css.brand}>
          {m.app}
        </Link>
        <nav className={css.nav} aria-label={m.nav.label}>
          {PAGES.map(({ to, name }) => (
            <Link key={to} to={to} className={css.link}>
              {m.nav[name]}
            </Link>
          ))}
        </nav>
        <div className={css.right}>
          <Tray />
          <Choice label={m.viewer.zone} value={zone} options={[["utc", "UTC"], ["local", "Local"]]} choose={setZone} />
          <Choice label={m.viewer.theme} value={theme} options={THEMES.map((name) => [name, m.viewer.themes[name]])} choose={setTheme} />
          <Principal viewer={viewer} />
        </div>
      </header>
      <ServiceBanner />
      <main id="main" className={css.main}>
        {children}
      </main>
    </>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  choose: (value: T) => void;
}

function Choice<T extends string>({ label, value, options, choose }: ChoiceProps<T>) {
  return (
    <select
      className={css.select}
      aria-label={label}
      title={label}
      value={value}
      onChange={(event) => {
        const next = options.find(([option]) => option === event.target.value);
        if (next) choose(next[0]);
      }}
    >
      {options.map(([option, word]) => (
        <option key={option} value={option}>
          {word}
        </option>
      ))}
    </select>
  );
}

async function become(name: string): Promise<void> {
  const response = await fetch("/dev/session", {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ principal: name }),
  }).catch(() => null);
  if (response?.ok) location.reload();
  else alert(m.viewer.switchFailed);
}

/** Who one is; in `dvt dev`, one may become somebody else here. */
function Principal({ viewer }: { viewer: Viewer }) {
  const { principal, tenantId, roles, devPrincipals } = viewer;
  if (devPrincipals.length === 0) {
    return (
      <span className={css.who}>
        {principal} @ {tenantId} ({roles.map((role) => m.role[role]).join(", ")}) <SignOut />
      </span>
    );
  }
  const tenants = [...new Set(devPrincipals.map((entry) => entry.tenantId))];
  return (
    <select className={css.select} aria-label={m.viewer.signedInAs} title={m.viewer.signedInAs} value={principal} onChange={(event) => void become(event.target.value)}>
      {tenants.map((tenant) => (
        <optgroup key={tenant} label={tenant}>
          {devPrincipals
            .filter((entry) => entry.tenantId === tenant)
            .map((entry) => (
              <option key={entry.principal} value={entry.principal}>
                {entry.principal} · {m.role[entry.role]}
              </option>
            ))}
        </optgroup>
      ))}
    </select>
  );
}

/** Own receipts of runs that are not open here move by asking, while any moves. */
function useOwnReceipts(): void {
  const viewer = useViewer();
  const moving = useReceipts().some((signal) => signal.actor === viewer.principal && !settled(signal));
  useEffect(() => {
    if (!moving) return;
    const timer = setInterval(() => {
      request(ViewerDocument, {})
        .then(({ viewer }) => receipts.receive(...viewer.signals.map(toSignal)))
        .catch(() => {});
    }, MOVING_POLL_MS);
    return () => clearInterval(timer);
  }, [moving]);
}
