import { expect, it } from "vitest";
import { header, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { RunWaits } from "./RunWaits";

const WAITS = [
  {
    kind: "JOURNAL",
    since: "2026-11-21T02:12:07Z",
    until: null,
    message: "A worker has no access to the journal of the server: the answer was HTTP 403.",
    help: "The people who operate the workers can help.",
    whoCould: [],
  },
  { kind: "PERSON", since: null, until: null, message: "A person must act.", help: "", whoCould: ["ana"] },
];

it("says what the run stands still for, since when and who can help", async () => {
  await show(<RunWaits runId="r1" />, { run: store(header()), answers: { RunWaits: { run: { waits: WAITS } } } });
  const line = await screen.findByTestId("waits");
  expect(line.textContent).toMatch(/HTTP 403\..* since .*The people who operate the workers can help\./);
  expect(line.textContent, "other lines name people").not.toContain("A person must act");
});
