// Pages whose code is fetched when they are opened. The router's own lazy component reloads the browser's page when the
// code cannot be fetched, and while dvt is down that replaces the whole application by an error page of the browser.
import { type ComponentType, createElement, use, useEffect, useState } from "react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { serverAnswers } from "../ui/lazyPart";
import { Notice } from "../ui/Page";

const RETRY_MS = 3_000;
const RELOADED = "dvt.reloaded";

interface LazyPage {
  (): React.ReactNode;
  preload: () => Promise<void>;
}

/** A page that stays where it is while its code cannot be fetched, and opens when dvt answers again. */
export function lazyPage(load: () => Promise<ComponentType>): LazyPage {
  let page: ComponentType | undefined;
  let failed: unknown = null;
  let fetching: Promise<void> | undefined;
  const preload = (): Promise<void> =>
    (fetching ??= load()
      .then(
        (loaded) => {
          page = loaded;
          failed = null;
        },
        (cause: unknown) => void (failed = cause),
      )
      .finally(() => (fetching = undefined)));
  function Page() {
    const [, showAgain] = useState(0);
    if (page) return createElement(page);
    if (failed === null) use(preload());
    const showResult = (): boolean => {
      showAgain((n) => n + 1);
      return page !== undefined;
    };
    return <MissingPage error={failed} fetchAgain={() => preload().then(showResult)} />;
  }
  Page.preload = preload;
  return Page;
}

/** Replaces a page whose code could not be fetched, and tries again until it can. */
function MissingPage({ error, fetchAgain }: { error: unknown; fetchAgain: () => Promise<boolean> }) {
  const [, setTries] = useState(0);
  useEffect(() => {
    const timer = setTimeout(() => {
      void serverAnswers().then(async (answers) => {
        if (answers && !(await fetchAgain())) reloadOnce();
        setTries((n) => n + 1);
      });
    }, RETRY_MS);
    return () => clearTimeout(timer);
  });
  return (
    <div role="alert">
      <Notice title={m.page.notNow}>
        <p>{m.page.notNowMeans}</p>
        <details>
          <summary>{m.page.technical}</summary>
          <code>{String(error)}</code>
        </details>
        <Button onClick={() => void serverAnswers().then((answers) => answers && location.reload())}>
          {m.run.retry}
        </Button>
      </Notice>
    </div>
  );
}

/**
 * Reloads an address once in this tab if its code is still missing although dvt answers: browsers remember a failed
 * import until a reload, and a newer dvt has other files. It never reloads twice, so that it cannot loop.
 */
function reloadOnce(): void {
  if (sessionStorage.getItem(RELOADED) === location.pathname) return;
  sessionStorage.setItem(RELOADED, location.pathname);
  location.reload();
}
