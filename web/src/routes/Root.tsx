import { Outlet, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { receipts, ViewerContext } from "../actions/context";
import { ViewerDocument } from "../api/gen/graphql";
import { toSignal } from "../api/model";
import { request } from "../api/request";
import { Shell, type Viewer } from "../components/Shell";
import { rememberSignedIn, SIGN_IN, SignIn, signedOut, wanted } from "../components/SignIn";
import { m } from "../messages";
import type { Zone } from "../ui/format";
import { Problem, Skeleton } from "../ui/Page";
import { usePreference } from "../ui/preference";
import { ZoneContext } from "../ui/Time";

const ZONES = ["utc", "local"] as const;

export function Root() {
  const { tz } = useSearch({ strict: false });
  const navigate = useNavigate();
  const [preferred, setPreferred] = usePreference<Zone>("dvt.zone", ZONES, "utc");
  const [viewer, setViewer] = useState<Viewer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    request(ViewerDocument, {}, abort.signal)
      .then(({ viewer }) => {
        receipts.receive(...viewer.signals.map(toSignal));
        rememberSignedIn();
        if (location.pathname === SIGN_IN) location.replace(wanted(location));
        setViewer(viewer);
        setError(null);
      })
      .catch((cause: unknown) => {
        if (!abort.signal.aborted) setError(cause);
      });
    return () => abort.abort();
  }, [attempt]);
  const zone = tz ?? preferred;
  const info = useMemo(() => {
    const { principal = "", tenantId = "", roles = [], grants = [], places = [] } = viewer ?? {};
    return { principal, tenantId, roles, actions: new Set(grants.flatMap((grant) => grant.actions)), places };
  }, [viewer]);
  if (signedOut(error)) return <SignIn error={error} />;
  if (error !== null) return <Problem error={error} retry={() => setAttempt(attempt + 1)} />;
  if (!viewer) return <Skeleton rows={6} label={m.sync.LOADING} />;
  const setZone = (next: Zone): void => {
    setPreferred(next);
    void navigate({ to: ".", search: (old) => ({ ...old, tz: next }), replace: true });
  };
  return (
    <ViewerContext value={info}>
      <ZoneContext value={zone}>
        <Shell viewer={viewer} setZone={setZone}>
          <Outlet />
        </Shell>
      </ZoneContext>
    </ViewerContext>
  );
}
