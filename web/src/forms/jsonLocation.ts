// Finds the text that a violation of the server is about in a document that is edited as JSON.
import { type Node, type ParseError, parseTree } from "jsonc-parser";

/** Offsets in the text; `to` is after the last character. */
export type Range = readonly [from: number, to: number];

/**
 * The range of the member or item that a path such as `steps[4].dependsOn` names, cut at the end of its first line. For
 * a path that is missing it is the nearest parent that exists. A first name that only the request has
 * (`settings.ttlMs`) is skipped. Null when the text is not JSON or has no part of the path.
 */
export function locate(text: string, path: string): Range | null {
  const errors: ParseError[] = [];
  let value = parseTree(text, errors, { disallowComments: true });
  if (errors.length > 0) return null;
  let found: Node | null = null;
  const names = path.split(/[.[\]]+/).filter((part) => part !== "");
  for (const [i, name] of names.entries()) {
    const member = memberOf(value, name);
    if (member) {
      found = member.node;
      value = member.value;
    } else if (i > 0) break;
  }
  if (!found) return null;
  const lineEnd = text.indexOf("\n", found.offset);
  const to = found.offset + found.length;
  return [found.offset, lineEnd < 0 ? to : Math.min(to, lineEnd)];
}

/** The member of an object by its name, or the item of a list by its index, with its value. */
function memberOf(parent: Node | undefined, name: string): { node: Node; value: Node | undefined } | null {
  if (parent?.type === "array") {
    const item = parent.children?.find((_, i) => String(i) === name);
    return item ? { node: item, value: item } : null;
  }
  const member = parent?.children?.find((child) => child.type === "property" && child.children?.[0]?.value === name);
  return member ? { node: member, value: member.children?.[1] } : null;
}
