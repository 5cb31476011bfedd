import { Component, type ComponentType, createElement, lazy, type ReactNode } from "react";
import { m } from "../messages";
import { Button } from "./Button";
import { Notice } from "./Page";

const AFTER_MS = 3_000;

/** A part whose code is not needed to open the page. It is fetched soon after it, so that it is there when dvt is not. */
export function lazyPart<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let fetched: Promise<{ default: ComponentType<P> }> | undefined;
  const fetchOnce = (): Promise<{ default: ComponentType<P> }> =>
    (fetched ??= load().then((part) => ({ default: part })));
  // Who opens it after a fetch ahead of time has failed asks anew.
  setTimeout(() => void fetchOnce().catch(() => (fetched = undefined)), AFTER_MS);
  const Part: ComponentType<P> = lazy(fetchOnce);
  return function LazyPart(props: P) {
    return <PartBoundary>{createElement(Part, props)}</PartBoundary>;
  };
}

/** Keeps the rest of the page when a part of it could not be fetched. The browser remembers that: only a reload asks again. */
class PartBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    return this.state.error !== null ? <MissingPart error={this.state.error} /> : this.props.children;
  }
}

/** What stands where the code of a part or of a whole page is missing. */
export function MissingPart({ error }: { error: unknown }) {
  return (
    <div role="alert">
      <Notice title={m.run.failedToLoad}>
        <p>{m.page.missing}</p>
        <p>
          <code>{String(error)}</code>
        </p>
        <Button onClick={() => location.reload()}>{m.page.reload}</Button>
      </Notice>
    </div>
  );
}
