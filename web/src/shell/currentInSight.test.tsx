import { act, render } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { useCurrentInSight } from "../ui/useCurrentInSight";

afterEach(() => vi.unstubAllGlobals());

function Row() {
  const row = useCurrentInSight<HTMLElement>("admin");
  return (
    <nav ref={row}>
      <a href="#admin" aria-current="page">
        Admin
      </a>
    </nav>
  );
}

/** A row of 165 px, whose current link begins at `from` and is 59 px wide; `moveTo` is a count that arrives or leaves. */
function rowAt(from: number) {
  let resized: (() => void) | undefined;
  vi.stubGlobal(
    "ResizeObserver",
    class {
      constructor(callback: () => void) {
        resized = callback;
      }
      observe() {}
      disconnect() {}
    },
  );
  let left = from;
  vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(165);
  vi.spyOn(HTMLElement.prototype, "offsetWidth", "get").mockReturnValue(59);
  vi.spyOn(HTMLElement.prototype, "offsetLeft", "get").mockImplementation(function (this: HTMLElement) {
    return this.tagName === "A" ? left : 0;
  });
  const { container } = render(<Row />);
  const row = container.querySelector("nav") ?? container;
  return {
    row,
    moveTo: (to: number) => {
      left = to;
      act(() => resized?.());
    },
  };
}

test("the row stands where its widths say, in whatever order counts arrive", () => {
  const { row, moveTo } = rowAt(479);
  moveTo(505);
  const counted = row.scrollLeft;
  moveTo(479);
  moveTo(505);
  expect(row.scrollLeft).toBe(counted);
  expect(counted).toBe(452);
  moveTo(40);
  expect(row.scrollLeft).toBe(0);
});

test("a row that a person scrolled stays, while the current link is in sight", () => {
  const { row, moveTo } = rowAt(479);
  row.scrollLeft = 400;
  moveTo(480);
  expect(row.scrollLeft).toBe(400);
  moveTo(700);
  expect(row.scrollLeft).toBe(647);
});
