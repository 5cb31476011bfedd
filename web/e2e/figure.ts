import { writeFileSync } from "node:fs";

/** What the figure found, in milliseconds, for the command that asked for it. */
export function report(name: string, cost: number, floor: number): void {
  console.log(`${name}: ${cost.toFixed(1)} ms, floor ${floor.toFixed(1)} ms`);
  const file = process.env["DVT_E2E_FIGURE"];
  if (file) writeFileSync(file, `${Math.round(cost * 1e6)} ${Math.round(floor * 1e6)}\n`);
}
