import { expect, it } from "vitest";
import type { LetterFieldsFragment } from "../api/gen/graphql";
import { screen, show } from "../testing/render";
import { LetterCauses } from "./LetterCauses";

const LETTER: LetterFieldsFragment = {
  id: "1",
  projectId: "shop",
  runId: "r1",
  fromSeq: 2,
  toSeq: 9,
  attempts: 10,
  cause: "OOM command not allowed when used memory > 'maxmemory'.",
  buriedAt: "2026-11-28T02:00:00Z",
  redrivenAt: null,
};

async function causes(status: string, cause = LETTER.cause): Promise<string> {
  const letters = [LETTER, { ...LETTER, id: "2", runId: "r2" }].map((letter) => ({ ...letter, cause }));
  await show(<LetterCauses letters={letters} more={false} />, {
    answers: { Health: { health: { status, checks: [{ name: "eventBus", status, message: null, latencyMs: 1 }] } } },
  });
  await screen.findByText(/The event bus/);
  return document.body.textContent;
}

it("says the cause, what mends it, what is missed, and that a redrive would fail before", async () => {
  const text = await causes("HEALTHY");
  for (const words of [
    "2 messages of 2 runs were refused",
    "Redis has no memory left. Give it more memory",
    "The event bus answers now.",
    "It refuses again what it refused for a lasting cause: mend that first, then redrive.",
    "programs that listen to the bus miss them",
  ])
    expect(text).toContain(words);
});

it("leads to Health while a redrive would fail again", async () => {
  expect(await causes("UNHEALTHY")).toContain("The event bus does not answer: a redrive would fail again.");
  expect(screen.getByRole("link", { name: "See Health first" })).toBeDefined();
});

it("says that a redrive would succeed when the bus was away and answers again", async () => {
  expect(await causes("HEALTHY", "dial tcp 10.0.0.1:6379: connection refused")).toContain(
    "The event bus answers now. Redrive them: a new try should succeed.",
  );
});
