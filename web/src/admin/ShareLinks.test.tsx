import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { ShareLinks } from "./ShareLinks";

const CHANGE = {
  action: "SET_SHARE_LINKS",
  requestId: "r",
  actor: "ana",
  at: "2026-11-21T03:00:00Z",
  version: 2,
  versionBefore: 1,
};

async function links(hours: number) {
  const refresh = vi.fn<() => void>();
  const view = await show(<ShareLinks hours={hours} refresh={refresh} />, {
    viewer: { actions: new Set(["SET_POLICY"]) },
    answers: { SetShareLinks: { setShareLinks: { service: {}, change: CHANGE } } },
  });
  return { ...view, refresh };
}

it("permits links for some hours, with a reason", async () => {
  const { user, sent, refresh } = await links(0);
  expect(screen.queryByRole("button", { name: "Revoke all links…" })).toBeNull();
  await user.click(screen.getByRole("button", { name: "Permit share links…" }));
  const field = screen.getByLabelText(/^Hours that a link is valid/);
  await user.clear(field);
  await user.type(field, "48");
  await user.type(screen.getByLabelText(/^Reason/), "for the auditors");
  await user.click(screen.getByRole("button", { name: "Permit share links" }));
  await vi.waitFor(() => expect(refresh).toHaveBeenCalledOnce());
  expect(of(sent, "SetShareLinks")).toMatchObject([{ input: { hours: 48, reason: "for the auditors" } }]);
});

it("revokes all links by setting the same hours again, and forbids them by 0", async () => {
  for (const [button, hours] of [
    ["Revoke all links", 24],
    ["Forbid share links", 0],
  ] as const) {
    const { user, sent, unmount } = await links(24);
    expect(document.body.textContent).toContain("for 24 hours");
    await user.click(screen.getByRole("button", { name: `${button}…` }));
    await user.type(screen.getByLabelText(/^Reason/), "leaked");
    await user.click(screen.getByRole("button", { name: button }));
    await vi.waitFor(() => expect(of(sent, "SetShareLinks")).toMatchObject([{ input: { hours, reason: "leaked" } }]));
    unmount();
  }
});
