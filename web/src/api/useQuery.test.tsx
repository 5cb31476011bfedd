import { render } from "@testing-library/react";
import { act } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { TypedDocumentString } from "./gen/graphql";
import { useQuery } from "./useQuery";

const previewDocument = "query Preview { a }" as unknown as TypedDocumentString<{ a: number }, Record<string, never>>;

function Page() {
  const { answer } = useQuery(previewDocument, {}, ({ a }) => a, { every: 30_000 });
  return <p>{answer}</p>;
}

function hide(hidden: boolean): void {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  Object.defineProperty(document, "visibilityState", {
    configurable: true,
    get: () => (hidden ? "hidden" : "visible"),
  });
  document.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a query that is due is sent at once when the page is visible again", async () => {
  let asked = 0;
  vi.stubGlobal("fetch", () => {
    asked++;
    return Promise.resolve(
      new Response(JSON.stringify({ data: { a: asked } }), { headers: { "content-type": "application/json" } }),
    );
  });
  render(<Page />);
  await act(() => vi.advanceTimersByTimeAsync(100));
  expect(asked).toBe(1);
  await act(() => vi.advanceTimersByTimeAsync(31_000));
  expect(asked).toBe(2);
  act(() => hide(true));
  await act(() => vi.advanceTimersByTimeAsync(90_000));
  expect(asked).toBe(2);
  act(() => hide(false));
  await act(() => vi.advanceTimersByTimeAsync(100));
  expect(asked).toBe(3);
});
