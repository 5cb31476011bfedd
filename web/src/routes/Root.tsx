import { Outlet, useNavigate, useSearch } from "@tanstack/react-router";
import { Suspense, useEffect, useMemo, useRef } from "react";
import { NOBODY, type Viewer, ViewerContext, type ViewerInfo } from "../session/viewer";
import { receipts } from "../receipts/context";
import { ViewerDocument } from "../api/gen/graphql";
import { toSignal } from "../api/model";
import { onRightsChanged } from "../api/session";
import { refetchShown, useQuery } from "../api/useQuery";
import { Shell } from "../shell/Shell";
import { rememberSignedIn, SIGN_IN, signedOut, wanted } from "../session/SignIn";
import { m } from "../messages";
import type { Zone } from "../format/format";
import { Problem } from "../page/Problem";
import { lazyPart } from "../ui/lazyPart";
import { Skeleton } from "../ui/Page";
import { usePreference } from "../ui/preference";
import { ZoneContext } from "../ui/Time";

const SignIn = lazyPart(() => import("../session/SignInPage").then((part) => part.SignIn));
const ZONES = ["utc", "local"] as const;
/** The longest time in which a page may not know of a right that was granted or revoked. */
const RIGHTS_MS = 60_000;

export function Root() {
  const { tz } = useSearch({ strict: false });
  const navigate = useNavigate();
  const [preferred, setPreferred] = usePreference<Zone>("dvt.zone", ZONES, "utc");
  const { answer, error, again } = useQuery(
    ViewerDocument,
    {},
    ({ viewer: { signals, ...viewer } }) => ({ signals, viewer }),
    { every: RIGHTS_MS },
  );
  const viewer = answer?.viewer;
  useEffect(() => {
    if (!answer) return;
    receipts.receive(...answer.signals.map(toSignal));
    rememberSignedIn();
    if (location.pathname === SIGN_IN) location.replace(wanted(location));
  }, [answer]);
  useEffect(() => onRightsChanged(again));
  const zone = tz ?? preferred;
  // The context changes only when the rights change, not with each answer.
  const known = JSON.stringify(viewer ?? {});
  const info = useMemo((): ViewerInfo => {
    const { grants = [], ...rest } = JSON.parse(known) as Partial<Viewer>;
    return {
      ...NOBODY,
      ...rest,
      actions: new Set(grants.flatMap((grant) => grant.actions)),
      breakGlassRoles: grants.filter((grant) => grant.breakGlass).map((grant) => grant.role),
    };
  }, [known]);
  const rights = viewer && JSON.stringify(viewer.grants);
  const readWith = useRef(rights);
  useEffect(() => {
    if (readWith.current !== undefined && readWith.current !== rights) refetchShown(ViewerDocument);
    readWith.current = rights;
  }, [rights]);
  if (!viewer)
    return signedOut(error) ? (
      <Suspense>
        <SignIn error={error} />
      </Suspense>
    ) : error ? (
      <Problem error={error} retry={again} />
    ) : (
      <Skeleton rows={6} label={m.sync.LOADING} />
    );
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
