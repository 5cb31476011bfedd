import { DAY_MS, dateMinute, duration, type Instant, plural, type Zone } from "../format/format";
import { artifactWords } from "../messages/artifacts";

/** When the content of an artifact is removed, in words. */
export function expiryWords(expiresAt: string | null, now: Instant, zone: Zone): string {
  if (expiresAt === null) return artifactWords.noEnd;
  const at = Date.parse(expiresAt);
  if (at <= now) return artifactWords.expiredOn(dateMinute(at, zone));
  const left = at - now;
  return artifactWords.expiresIn(left < 2 * DAY_MS ? duration(left) : plural(Math.floor(left / DAY_MS), "day"));
}
