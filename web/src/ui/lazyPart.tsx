import { Component, type ComponentType, createElement, lazy, type ReactNode, useState } from "react";
import { m } from "../messages";
import { Button } from "./Button";
import { Notice } from "./Page";

const AFTER_MS = 3_000;

/**
 * A part whose code is not needed to open the page. It is fetched soon after, so that it works when dvt is down later.
 */
export function lazyPart<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let fetched: Promise<{ default: ComponentType<P> }> | undefined;
  const fetchOnce = (): Promise<{ default: ComponentType<P> }> =>
    (fetched ??= load().then((part) => ({ default: part })));
  // When this early fetch fails, opening the part fetches it again.
  setTimeout(() => void fetchOnce().catch(() => (fetched = undefined)), AFTER_MS);
  const Part: ComponentType<P> = lazy(fetchOnce);
  return function LazyPart(props: P) {
    return <PartBoundary>{createElement(Part, props)}</PartBoundary>;
  };
}

/**
 * Keeps the rest of the page when the code of a part could not be fetched. Browsers remember the failure until a
 * reload.
 */
class PartBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    return this.state.error !== null ? <MissingPart error={this.state.error} /> : this.props.children;
  }
}

/** Whether dvt answers. A reload while it does not would replace the application by an error page of the browser. */
export function serverAnswers(): Promise<boolean> {
  return fetch("/auth/methods", { credentials: "same-origin", cache: "no-store" }).then(
    (response) => response.ok,
    () => false,
  );
}

/** Replaces a part whose code could not be fetched. */
export function MissingPart({ error }: { error: unknown }) {
  const [down, setDown] = useState(false);
  const reload = async (): Promise<void> => {
    if (await serverAnswers()) location.reload();
    else setDown(true);
  };
  return (
    <div role="alert">
      <Notice title={m.run.failedToLoad}>
        <p>{m.page.missing}</p>
        <details>
          <summary>{m.page.technical}</summary>
          <code>{String(error)}</code>
        </details>
        <p role="status">{down && m.page.stillDown}</p>
        <Button onClick={() => void reload()}>{m.page.reload}</Button>
      </Notice>
    </div>
  );
}
