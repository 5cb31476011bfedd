import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { Table } from "./Table";

it("is a region that keys can scroll, whose cells carry the name of their column", async () => {
  await show(
    <Table
      label="Dead letters"
      columns={[
        { head: "Run", main: true, cell: (row: string[]) => row[0] },
        { head: "Tries", cell: (row: string[]) => row[1] },
      ]}
      rows={[
        ["7f3a", "10"],
        ["61c2", "1"],
      ]}
      rowKey={(row) => row[0] ?? ""}
    />,
  );
  expect(screen.getByRole("region", { name: "Dead letters" }).tabIndex).toBe(0);
  expect(screen.getAllByRole("columnheader").map((head) => head.textContent)).toEqual(["Run", "Tries"]);
  const cells = screen.getAllByRole("cell");
  expect(cells.map((cell) => `${cell.getAttribute("data-label")}: ${cell.textContent}`)).toEqual([
    "Run: 7f3a",
    "Tries: 10",
    "Run: 61c2",
    "Tries: 1",
  ]);
});
