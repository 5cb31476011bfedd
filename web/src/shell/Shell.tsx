import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { CircleQuestionMark, Search, Unplug } from "lucide-react";
import { type ReactNode, Suspense, useEffect, useState, useSyncExternalStore } from "react";
import { receipts, useReceipts } from "../receipts/context";
import { useViewer, type Viewer } from "../session/viewer";
import { settled } from "../receipts/receipts";
import { Tray } from "../receipts/Tray";
import { ViewerDocument } from "../api/gen/graphql";
import { linkState, onLink, retryNow } from "../api/live";
import { toSignal } from "../api/model";
import { request } from "../api/request";
import { whileSeen } from "../api/whileSeen";
import { useAttentionCount } from "../attention/count";
import { useInbox } from "../inbox/inbox";
import { MANY } from "../inbox/state";
import { m } from "../messages";
import { Button } from "../ui/Button";
import type { Zone } from "../format/format";
import { useTitleCount } from "../ui/documentStatus";
import { copyLink } from "../ui/copyLink";
import { useKeys } from "../ui/keys";
import { lazyPart } from "../ui/lazyPart";
import { usePreference } from "../ui/preference";
import { useZone } from "../ui/Time";
import { useCurrentInSight } from "../ui/useCurrentInSight";
import { Account, THEMES } from "./Account";
import { Choice } from "./Choice";
import { MORE_PAGES, PAGES } from "./pages";
import { Places } from "./Places";
import { ServiceBanner } from "./ServiceBanner";
import { CopiedNotice, Share } from "./Share";
import prose from "../styles/Prose.module.css";
import css from "./Shell.module.css";
import { BreakGlassTimer } from "./BreakGlassTimer";
import { useSessionEnd } from "../session/SignIn";

const SignInOver = lazyPart(() => import("../session/SignInOver").then((part) => part.SignInOver));
const Palette = lazyPart(() => import("./Palette").then((part) => part.Palette));
const Help = lazyPart(() => import("./Help").then((part) => part.Help));

/** Every address begins with that of the first page. */
const EXACT = { exact: true, includeSearch: false };
const MOVING_POLL_MS = 5_000;
interface ShellProps {
  viewer: Viewer;
  setZone: (zone: Zone) => void;
  children: ReactNode;
}

export function Shell({ viewer, setZone, children }: ShellProps) {
  const zone = useZone();
  const [theme, setTheme] = usePreference("dvt.theme", THEMES, "system");
  const [over, setOver] = useState<"palette" | "help" | null>(null);
  const navigate = useNavigate();
  const signedOut = useSessionEnd() !== null;
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  useOwnReceipts();
  useKeys({
    ...Object.fromEntries(
      [...PAGES, ...MORE_PAGES].map(({ to, name, key }) => [
        `g ${key}`,
        { does: m.keys.go(m.nav[name]), run: () => void navigate({ to }) },
      ]),
    ),
    c: { does: m.keys.start, run: () => void navigate({ to: "/start" }) },
    y: { does: m.keys.copyLink, run: () => void copyLink(location.href) },
    "?": { does: m.help.title, run: () => setOver("help") },
  });
  useEffect(() => {
    // The shortcut of the palette has a modifier, so it works in fields too.
    const ask = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey) || event.altKey || event.shiftKey)
        return;
      event.preventDefault();
      setOver((now) => (now === "palette" ? null : (now ?? "palette")));
    };
    addEventListener("keydown", ask);
    return () => removeEventListener("keydown", ask);
  }, []);
  const close = (): void => setOver(null);
  const row = useCurrentInSight<HTMLElement>(useLocation({ select: ({ pathname }) => pathname }));
  return (
    <>
      <a className={css.skip} href="#main">
        {m.nav.skip}
      </a>
      <header>
        <div className={css.bar}>
          <Link to="/" className={css.brand}>
            {m.app}
          </Link>
          <Places viewer={viewer} />
          <nav ref={row} className={css.nav} aria-label={m.nav.label}>
            {PAGES.map(({ to, name }) => (
              <Link key={to} to={to} className={css.link} {...(to === "/" && { activeOptions: EXACT })}>
                {m.nav[name]} {name === "attention" && <AttentionCount />}
                {name === "inbox" && <InboxCount />}
              </Link>
            ))}
          </nav>
          <div className={css.right}>
            <LinkState />
            <Button kind="quiet" label={`${m.palette.title}, ${m.help.paletteKey}`} onClick={() => setOver("palette")}>
              <Search size={16} aria-hidden="true" />
              <kbd className={css.hotkey}>{m.help.paletteKey}</kbd>
            </Button>
            <Share />
            <Tray />
            <Choice
              label={m.viewer.zone}
              value={zone}
              options={[
                ["utc", "UTC"],
                ["local", "Local"],
              ]}
              choose={setZone}
            />
            <span className={css.help}>
              <Button kind="quiet" label={m.help.title} onClick={() => setOver("help")}>
                <CircleQuestionMark size={16} aria-hidden="true" />
              </Button>
            </span>
            <Account viewer={viewer} theme={theme} setTheme={setTheme} zone={zone} setZone={setZone} />
          </div>
        </div>
        <BreakGlassTimer />
      </header>
      <CopiedNotice />
      <ServiceBanner />
      <main id="main" className={css.main} data-veiled={signedOut || undefined}>
        {children}
      </main>
      <Suspense>
        {over === "palette" && (
          <Palette
            dev={viewer.devPrincipals.length > 0}
            close={close}
            help={() => setOver("help")}
            setTheme={setTheme}
            setZone={setZone}
          />
        )}
        {over === "help" && <Help close={close} />}
      </Suspense>
      {signedOut && (
        <Suspense>
          <SignInOver principal={viewer.principal} />
        </Suspense>
      )}
    </>
  );
}

/** The number of items that wait for the viewer, live. */
function InboxCount() {
  const { count } = useInbox();
  return <Count count={count} says={m.inbox.waits} id="inbox-count" />;
}

/** The number of items that need somebody, live. The title of the tab has it too. */
function AttentionCount() {
  const count = useAttentionCount();
  useTitleCount(count ?? 0);
  return <Count count={count} says={m.attention.waits} id="attention-count" />;
}

function Count({ count, says, id }: { count: number | null; says: (n: number) => string; id: string }) {
  if (count === null || count === 0) return null;
  return (
    <span className={`${prose.count} ${css.count}`} role="status" aria-label={says(count)} data-testid={id}>
      {count >= MANY ? `${MANY}+` : count}
    </span>
  );
}

/** Shown while the connection is lost. Each page shows its own freshness. */
function LinkState() {
  const { link } = useSyncExternalStore(onLink, linkState);
  if (link !== "closed") return null;
  return (
    <span className={css.cut} role="status">
      <Unplug size={14} aria-hidden="true" /> {m.sync.OFFLINE}
      <Button kind="quiet" onClick={retryNow}>
        {m.banner.retryNow}
      </Button>
    </span>
  );
}

/** Polls the viewer's receipts of runs that are not open here, while any of them moves. */
function useOwnReceipts(): void {
  const viewer = useViewer();
  const moving = useReceipts().some((signal) => signal.actor === viewer.principal && !settled(signal));
  useEffect(() => {
    if (!moving) return;
    return whileSeen(MOVING_POLL_MS, async () => {
      const { viewer } = await request(ViewerDocument, {});
      receipts.receive(...viewer.signals.map(toSignal));
    });
  }, [moving]);
}
