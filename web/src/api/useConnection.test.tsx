import { act, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { refused, serve } from "../testing/render";
import type { TypedDocumentString } from "./gen/graphql";
import { useConnection } from "./useConnection";
import { refetchShown } from "./useQuery";

interface Letters {
  letters: { edges: { node: string }[]; pageInfo: { endCursor: string | null; hasNextPage: boolean } };
}
const LETTERS = "query Letters { letters }" as unknown as TypedDocumentString<
  Letters,
  { first: number; after: string | null }
>;
const page = (node: string, endCursor: string | null): Letters => ({
  letters: { edges: [{ node }], pageInfo: { endCursor, hasNextPage: endCursor !== null } },
});

function Page() {
  const { rows, error, more, hasMore, asOf } = useConnection(LETTERS, {}, ({ letters }) => letters);
  return (
    <>
      <p data-testid="rows">{rows === null ? "none" : rows.join(" ")}</p>
      <p data-testid="error">{error?.message}</p>
      <p data-testid="asOf">{asOf > 0 ? "read" : "never"}</p>
      {hasMore && <button onClick={more}>More</button>}
    </>
  );
}
const text = (id: string) => screen.getByTestId(id).textContent;
const FORBIDDEN = refused("FORBIDDEN", "You need the Admin role.");

test("rows are cleared when the rights to read them have ended", async () => {
  let answer: unknown = page("a", null);
  serve({ Letters: () => answer });
  render(<Page />);
  await vi.waitFor(() => expect(text("rows")).toBe("a"));
  answer = FORBIDDEN;
  act(() => refetchShown("query Viewer"));
  await vi.waitFor(() => expect(text("error")).toBe("You need the Admin role."));
  expect(text("rows")).toBe("none");
  expect(text("asOf"), "no time of an answer that is not shown").toBe("never");
});

test("rows are cleared when a further page is refused", async () => {
  serve({ Letters: ({ after }: { after: string | null }) => (after === null ? page("a", "1") : FORBIDDEN) });
  render(<Page />);
  (await screen.findByRole("button", { name: "More" })).click();
  await vi.waitFor(() => expect(text("error")).toBe("You need the Admin role."));
  expect(text("rows")).toBe("none");
});
