// Layouts of large plans, cached in this browser. Nothing depends on the cache: when it fails, the plan is laid out
// again.
import type { Layout } from "./layout";

const NAME = "dvt-layouts";
const STORE = "layouts";
/** The most layouts; the one used longest ago is dropped. A layout of 5,000 steps has about 200 kB. */
const KEPT = 12;

interface Entry {
  key: string;
  usedAt: number;
  layout: Layout;
}

export async function keptLayout(key: string): Promise<Layout | null> {
  try {
    const store = await open();
    const entry = (await done(store.get(key))) as Entry | undefined;
    if (entry) store.put({ ...entry, usedAt: Date.now() } satisfies Entry);
    return entry?.layout ?? null;
  } catch {
    return null;
  }
}

export async function keepLayout(key: string, layout: Layout): Promise<void> {
  try {
    const store = await open();
    await done(store.put({ key, usedAt: Date.now(), layout } satisfies Entry));
    const byUse = (await done(store.index("usedAt").getAllKeys())) as string[];
    for (const old of byUse.slice(0, Math.max(0, byUse.length - KEPT))) store.delete(old);
  } catch {
    // The plan is laid out again next time.
  }
}

async function open(): Promise<IDBObjectStore> {
  const request = indexedDB.open(NAME, 1);
  request.addEventListener("upgradeneeded", () =>
    request.result.createObjectStore(STORE, { keyPath: "key" }).createIndex("usedAt", "usedAt"),
  );
  const database = await done(request);
  const transaction = database.transaction(STORE, "readwrite");
  transaction.addEventListener("complete", () => database.close());
  return transaction.objectStore(STORE);
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.addEventListener("success", () => resolve(request.result));
    request.addEventListener("error", () => reject(request.error ?? new Error("the browser keeps nothing")));
  });
}
