import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { SecretReadsPanel } from "./SecretReadsPanel";

const READ = {
  at: "2026-11-28T03:00:00Z",
  runId: "0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10",
  stepId: "load",
  logicalAttemptId: 1,
  engineAttemptId: 2,
  account: "steps-1",
  worker: "host/7",
  provider: "vault",
  key: "db#password",
  version: "3",
  answeredVersion: "3",
  as: "env:TOKEN",
  cached: true,
  code: null,
};

it("lists the reads of secrets, and finds those of a key", async () => {
  const edges = [READ, { ...READ, stepId: "call", cached: false, code: "SECRET_DENIED" }].map((node, i) => ({
    cursor: String(i),
    node,
  }));
  const { user, sent } = await show(<SecretReadsPanel />, {
    answers: { SecretReads: { secretAccess: { edges, pageInfo: { hasNextPage: false, endCursor: null } } } },
  });
  expect(await screen.findAllByText("vault:db#password@3")).toHaveLength(2);
  expect(document.body.textContent).toContain("remembered");
  expect(screen.getAllByText("steps-1/host/7")[0]?.closest("td")?.dataset["wide"], "on a phone too").toBeUndefined();
  expect(screen.getByText("denied: the provider refused the worker").title).toBe("SECRET_DENIED");
  await user.type(screen.getByLabelText("Key"), "db#user");
  await user.click(screen.getByRole("button", { name: "Find" }));
  await vi.waitFor(() => expect(of(sent, "SecretReads").at(-1)).toMatchObject({ filter: { key: "db#user" } }));
});
