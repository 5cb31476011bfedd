import { expect, test } from "vitest";
import { of, screen, show } from "../testing/render";
import { DestinationLetters } from "./DestinationLetters";

const destinations = [
  { name: "crm", deadLetters: 2858 },
  { name: "billing", deadLetters: 0 },
];

test("says that a destination keeps dead letters that the list has not", async () => {
  await show(<DestinationLetters />, {
    viewer: { actions: new Set(["DEBUG"]) },
    answers: { Destinations: { destinations } },
  });
  const said = await screen.findByTestId("of-destinations");
  expect(said.textContent).toContain("1 destination keeps 2,858 dead letters of its own, which are not in this list:");
  expect(screen.getByRole("link", { name: "Deliveries" }).getAttribute("href")).toBe("/deliveries");
});

test("asks nothing for somebody who may not see the destinations", async () => {
  const { sent } = await show(
    <>
      <h1>Dead letters</h1>
      <DestinationLetters />
    </>,
    { answers: { Destinations: { destinations } } },
  );
  expect(of(sent, "Destinations")).toEqual([]);
});
