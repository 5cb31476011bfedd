// The dvt under test: found at DVT_E2E_URL, or started here on a data directory of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

export const READY_MS = 300_000;
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export interface Dvt {
  url: string;
  /** Its data directory, in which the tokens are. */
  data: string;
  /** Null when somebody else started it. */
  own: { pid: number; port: number; data: string } | null;
}

let current: Dvt | null = null;

/** The dvt of this worker. */
export function load(): Dvt {
  if (current === null) throw new Error("a test asks for `url` first: with it dvt is started");
  return current;
}

/** The token of a principal of `dvt dev`. */
export function tokenOf(principal: string): string {
  const { tokens } = JSON.parse(readFileSync(join(load().data, "tokens"), "utf8")) as {
    tokens: Record<string, string>;
  };
  const token = tokens[principal];
  if (token === undefined) throw new Error(`there is no dev principal ${principal}`);
  return token;
}

/** A new link that signs one browser in, as `dvt dev link` prints it. */
export async function link(principal: string): Promise<string> {
  const response = await fetch(`${load().url}/dev/link`, {
    method: "POST",
    headers: { authorization: `Bearer ${tokenOf(principal)}` },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`dvt gave no link: ${response.status} ${text}`);
  return (JSON.parse(text) as { url: string }).url;
}

export function save(dvt: Dvt): void {
  current = dvt;
}

/** The dvt that was named, or one of this worker's own. */
export async function open(sample: boolean): Promise<Dvt> {
  const url = process.env["DVT_E2E_URL"];
  save(url ? { url, data: process.env["DVT_DATA"] ?? join(ROOT, ".dvt"), own: null } : await start({ sample }));
  return load();
}

/** Ends the dvt of this worker, and with it what it kept. */
export async function close(): Promise<void> {
  const { own } = load();
  if (own === null) return;
  await stop(own.pid, "SIGTERM");
  rmSync(own.data, { recursive: true, force: true });
  for (const file of [logOf(own.data), destinationsOf(own.data)]) rmSync(file, { force: true });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        typeof address === "object" && address ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
}

/**
 * Ours without what only these tests read (an unknown DVT_ setting is an error), and with the tools that `make`
 * prepares.
 */
function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^DVT_(E2E_|BIN$|CHROMIUM$)/.test(name));
  const path = [join(ROOT, ".tools", "dbt", "bin"), process.env["PATH"] ?? "", join(ROOT, ".tools", "bin")].join(
    delimiter,
  );
  // What a server measures of itself comes soon enough to be waited for.
  // Programs of steps wait for files of the tests, which lie there.
  return { DVT_HEALTH_INTERVAL: "1s", DVT_SANDBOX_WRITE: tmpdir(), ...Object.fromEntries(kept), PATH: path };
}

/** Starts `dvt dev` and waits for its ready line. */
export async function start(on: { port?: number; data?: string; sample?: boolean }): Promise<Dvt> {
  const { port = await freePort(), data = mkdtempSync(join(tmpdir(), "dvt-e2e-data-")), sample = false } = on;
  const args = ["dev", "--listen", `127.0.0.1:${port}`, "--data", data, ...(sample ? [] : ["--no-sample"])];
  const binary = process.env["DVT_BIN"] ?? join(ROOT, "bin", "dvt");
  // A file, not a pipe: dvt outlives the process that started it, and a pipe without a reader ends it.
  const log = logOf(data);
  const out = openSync(log, "w");
  const destinations = destinationsOf(data);
  if (!existsSync(destinations)) writeFileSync(destinations, "destinations: []\n");
  writeFileSync(join(data, "secrets.yaml"), "acme/dev/warehouse/password: correct-horse\n", { mode: 0o600 });
  const ledger = join(data, "erasures");
  mkdirSync(ledger, { recursive: true });
  const env = { ...environment(), DVT_DESTINATIONS: destinations, DVT_ERASURE_LEDGER: ledger };
  const child = spawn(binary, args, { cwd: ROOT, env, detached: true, stdio: ["ignore", out, out] });
  closeSync(out);
  const url = await ready(child, log);
  child.unref();
  return { url, data, own: { pid: child.pid ?? 0, port, data } };
}

/** The file of destinations of a dvt of ours, which a test may change: dvt reads it again every few seconds. */
export function destinationsOf(data: string): string {
  return `${data}.destinations.yaml`;
}

export function logOf(data: string): string {
  return `${data}.log`;
}

async function ready(child: ChildProcess, log: string): Promise<string> {
  let ended: string | null = null;
  child.once("error", (cause) => (ended = `could not be started (${cause.message}); \`make build\` makes it`));
  child.once("exit", (code) => (ended = `ended with ${code}`));
  const deadline = Date.now() + READY_MS;
  for (;;) {
    const said = readFileSync(log, "utf8");
    const url = /dvt is ready: (http:\/\/[^/\s]+)\/\?key=/.exec(said)?.[1];
    if (url !== undefined) return url;
    if (Date.now() > deadline) ended ??= `was not ready within ${READY_MS / 1000} s`;
    if (ended !== null) throw new Error(`dvt dev ${String(ended)}. It said:\n${said.slice(-4000)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Ends it, children included, and waits until it is gone. */
export async function stop(pid: number, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  try {
    process.kill(pid, signal);
  } catch {
    return;
  }
  for (let i = 0; i < 200; i++) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
