// Reads a part of an artifact. Nothing here runs or renders what a step wrote.

/** What a page of text or rows reads. */
export const PART_BYTES = 4 << 20;
/** A document that must be read whole is read when the page opens, up to the first size, and when asked up to the other. */
export const AT_ONCE_BYTES = 8 << 20;
export const MOST_BYTES = 128 << 20;

const UNSATISFIABLE = 416;
const PARTIAL = 206;

export interface Content {
  text: string;
  /** The file has no more than the text. */
  whole: boolean;
  binary: boolean;
}

/** Why the server gave no content. */
export class ArtifactError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly expiresAt: string | null = null,
  ) {
    super(message);
  }
}

/** Reads at most `most` bytes from the beginning, whatever the server sends. */
export async function readPart(address: string, most: number, signal: AbortSignal): Promise<Content> {
  const response = await fetch(address, { headers: { Range: `bytes=0-${most - 1}` }, signal });
  if (response.status === UNSATISFIABLE) return { text: "", whole: true, binary: false };
  if (!response.ok) throw await refusalOf(response);
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let read = 0;
  let more = false;
  for (;;) {
    const part = await reader?.read();
    if (!part || part.done) break;
    const left = most - read;
    text += decoder.decode(part.value.subarray(0, left), { stream: true });
    read += Math.min(part.value.length, left);
    if (part.value.length > left) {
      more = true;
      void reader?.cancel();
      break;
    }
  }
  const size = response.status === PARTIAL ? totalOf(response.headers.get("Content-Range")) : null;
  const whole = !more && (size === null || size <= read);
  // A character that the end cut is left out.
  return { text: whole ? text + decoder.decode() : text, whole, binary: text.includes("\0") };
}

function totalOf(range: string | null): number | null {
  const total = /\/(\d+)$/.exec(range ?? "")?.[1];
  return total === undefined ? null : Number(total);
}

async function refusalOf(response: Response): Promise<ArtifactError> {
  try {
    const said = (await response.json()) as { code?: string; message?: string; artifact?: { expiresAt?: string } };
    return new ArtifactError(said.code ?? "", said.message ?? "", said.artifact?.expiresAt ?? null);
  } catch {
    return new ArtifactError("", `HTTP ${response.status}`);
  }
}
