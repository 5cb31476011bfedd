import type { Zone } from "../format/format";

/** The range of a replay from two fields of a form; null while they give none. An empty end is now. */
export function rangeOf(from: string, to: string, zone: Zone): { since: string; until: string | null } | null {
  const since = timeOf(from, zone);
  const until = timeOf(to, zone);
  if (since === null || (to !== "" && until === null) || (until !== null && until <= since)) return null;
  return { since, until };
}

/** The browser writes local times without a zone; the form names the zone of the page. */
function timeOf(text: string, zone: Zone): string | null {
  const at = Date.parse(zone === "utc" ? `${text}Z` : text);
  return Number.isNaN(at) ? null : new Date(at).toISOString();
}
