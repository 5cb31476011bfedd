import { rmSync } from "node:fs";
import { forget, load, logOf, save, start, stop } from "./dvt";

export default async function setup(): Promise<() => Promise<void>> {
  const url = process.env["DVT_E2E_URL"];
  save(url ? { url, own: null } : await start());
  return async () => {
    const { own } = load();
    if (own) {
      await stop(own.pid, "SIGTERM");
      rmSync(own.data, { recursive: true, force: true });
      rmSync(logOf(own.data), { force: true });
    }
    forget();
  };
}
