import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { NotFound } from "./NotFound";

it("names the address that dvt does not have, and leads home and to the documentation", async () => {
  await show(<NotFound />, { path: "/grafiql" });
  expect(screen.getByRole("heading").textContent).toBe("There is no page at /grafiql");
  const links = screen.getAllByRole("link").map((link) => link.getAttribute("href"));
  expect(links).toEqual(["/", "/runs", "/plans", "/docs", "/docs/api"]);
});
