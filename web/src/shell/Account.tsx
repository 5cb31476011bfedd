import { ChevronDown } from "lucide-react";
import { useId } from "react";
import type { Viewer } from "../session/viewer";
import { m } from "../messages";
import type { Zone } from "../format/format";
import { setKeysOn, useKeysOn } from "../ui/keys";
import css from "./Account.module.css";
import { Choice } from "./Choice";
import { BreakGlassButton } from "../session/BreakGlass";
import { SignOut } from "../session/SignIn";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

/** Signs in as another principal of `dvt dev`; false when that failed. */
async function becomePrincipal(principal: string): Promise<boolean> {
  const response = await fetch("/dev/session", {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ principal }),
  }).catch(() => null);
  return response?.ok ?? false;
}

async function become(principal: string): Promise<void> {
  if (await becomePrincipal(principal)) location.reload();
  else alert(m.viewer.switchFailed);
}

interface AccountProps {
  viewer: Viewer;
  theme: Theme;
  setTheme: (theme: Theme) => void;
  zone: Zone;
  setZone: (zone: Zone) => void;
}

/** The viewer's account and preferences; in `dvt dev`, the choice of another principal. */
export function Account({ viewer, theme, setTheme, zone, setZone }: AccountProps) {
  const id = useId();
  const keys = useKeysOn();
  const { principal, tenantId, roles } = viewer;
  const words = roles.map((role) => m.role[role]).join(", ");
  return (
    <>
      <button type="button" className={css.who} popoverTarget={id} aria-label={m.viewer.account(principal)}>
        <span className={css.name}>{principal}</span> <ChevronDown size={14} aria-hidden="true" />
      </button>
      <div id={id} popover="auto" className={css.panel}>
        <p>
          <strong>{principal}</strong> @ {tenantId}
        </p>
        <p className={css.roles}>{words}</p>
        <BreakGlassButton />
        <label className={css.line}>
          {m.viewer.theme}
          <Choice
            label={m.viewer.theme}
            value={theme}
            options={THEMES.map((name) => [name, m.viewer.themes[name]])}
            choose={setTheme}
          />
        </label>
        <label className={css.line}>
          {m.viewer.zone}
          <Choice
            label={m.viewer.times}
            value={zone}
            options={[
              ["utc", "UTC"],
              ["local", "Local"],
            ]}
            choose={setZone}
          />
        </label>
        <label className={css.line}>
          {m.viewer.keys}
          <input type="checkbox" checked={keys} onChange={(event) => setKeysOn(event.target.checked)} />
        </label>
        {viewer.devPrincipals.length > 0 ? <Become viewer={viewer} /> : <SignOut />}
      </div>
    </>
  );
}

function Become({ viewer: { principal, devPrincipals } }: { viewer: Viewer }) {
  const tenants = [...new Set(devPrincipals.map((entry) => entry.tenantId))];
  return (
    <label className={css.line}>
      {m.viewer.signedInAs}
      <select className={css.select} value={principal} onChange={(event) => void become(event.target.value)}>
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
    </label>
  );
}
