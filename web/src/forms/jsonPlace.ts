// Where in a document that is edited as JSON stands what the server has something against.

/** From the beginning of a value to its end. */
export type Span = readonly [from: number, to: number];

/**
 * The first line of what a path like `steps[4].dependsOn` names in a JSON text. Of a path that is not there, its nearest
 * parent that is; a first name that only the request knows (`settings.ttlMs`) is left out. Null when nothing of it is there.
 */
export function placeOf(text: string, path: string): Span | null {
  if (!isJson(text)) return null;
  let at = skip(text, 0);
  let found: Span | null = null;
  for (const [i, name] of path
    .split(/[.[\]]+/)
    .filter((part) => part !== "")
    .entries()) {
    const member = memberOf(text, at, name);
    if (member === null) {
      if (i === 0) continue;
      break;
    }
    found = [member.from, member.to];
    at = member.value;
  }
  return found && [found[0], Math.min(found[1], lineEnd(text, found[0]))];
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function lineEnd(text: string, from: number): number {
  const at = text.indexOf("\n", from);
  return at < 0 ? text.length : at;
}

function skip(text: string, at: number): number {
  while (" \n\r\t".includes(text[at] ?? "x")) at++;
  return at;
}

interface Member {
  /** Where its name begins, or the value of an item of a list. */
  from: number;
  value: number;
  to: number;
}

function memberOf(text: string, at: number, name: string): Member | null {
  const list = text[at] === "[";
  if (!list && text[at] !== "{") return null;
  let i = skip(text, at + 1);
  for (let n = 0; i < text.length && text[i] !== "}" && text[i] !== "]"; n++) {
    const from = i;
    let key = String(n);
    if (!list) {
      const end = endOf(text, i);
      key = String(JSON.parse(text.slice(i, end)));
      i = skip(text, skip(text, end) + 1);
    }
    const to = endOf(text, i);
    if (key === name) return { from, value: i, to };
    i = skip(text, to);
    if (text[i] === ",") i = skip(text, i + 1);
  }
  return null;
}

/** Behind the value that begins there. */
function endOf(text: string, from: number): number {
  let depth = 0;
  for (let i = from; i < text.length; i++) {
    const c = text[i] ?? "";
    if (c === '"') {
      for (i++; text[i] !== '"'; i++) if (text[i] === "\\") i++;
      if (depth === 0) return i + 1;
    } else if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") {
      if (depth === 0) return i;
      if (--depth === 0) return i + 1;
    } else if (depth === 0 && ", \n\r\t".includes(c)) return i;
  }
  return text.length;
}
