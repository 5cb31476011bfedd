// Incidents: their list, one of them, and the link of a run. They are loaded with their pages.
import type { IncidentSeverity } from "../api/gen/graphql";
import { plural } from "../format/format";

export const incidents = {
  title: "Incidents",
  one: "Incident",
  says: "dvt opens an incident for each alert of level high. It stays until a person closes it with its cause.",
  none: "No incident is open.",
  noneAtAll: "There has been no incident.",
  all: "Show closed too",
  what: "What",
  severity: "Severity",
  severities: {
    SEV_0: "Severity 0",
    SEV_1: "Severity 1",
    SEV_2: "Severity 2",
    SEV_3: "Severity 3",
  } satisfies Record<IncidentSeverity, string>,
  means: {
    SEV_0: "an escape from a sandbox, a secret in use by strangers, or a tenant that sees another's things",
    SEV_1: "dvt is down, or data may be wrong",
    SEV_2: "a part is down, or runs stand still",
    SEV_3: "dvt is slow or full",
  } satisfies Record<IncidentSeverity, string>,
  state: "Who has it",
  nobody: "Nobody yet",
  nobodyHasIt: "Nobody has taken it on.",
  has: (who: string) => `Taken on by ${who}`,
  closedBy: (who: string) => `Closed by ${who}`,
  since: "Since",
  opened: "opened",
  affected: "Affected",
  installation: "the installation",
  tenant: "the tenant",
  project: (project: string) => `${project} / every environment`,
  alerts: "Alerts",
  alertCount: (n: number, open: number) => {
    if (open === 0) return `${plural(n, "alert")}, none open`;
    return open === n ? plural(n, "open alert") : `${open} of ${n} alerts open`;
  },
  todo: "What to do:",
  run: "Open the run",
  runbook: "Open the runbook",
  acknowledge: "Take it on",
  takeOver: "Take it over",
  acknowledgeMeans: "Others see that you look after it.",
  takeOverMeans: (who: string) => `${who} has it. Others then see that you look after it.`,
  acknowledgeNote: "What you are going to do",
  note: "Add a note",
  noteText: "What you found or did",
  change: "Change the severity",
  why: "Why",
  close: "Close",
  cause: "What the cause was",
  closeMeans: "Trouble of this kind that comes back opens another incident.",
  stillOpen: (n: number) =>
    n === 1
      ? "1 of its alerts is still open: the trouble may go on."
      : `${n} of its alerts are still open: the trouble may go on.`,
  of: (verb: string, title: string) => `${verb}: ${title}`,
  timeline: "What happened",
  begun: "The incident was opened",
  acts: {
    ACKNOWLEDGE: (who: string) => `${who} took it on`,
    NOTE: (who: string) => `${who} noted`,
    CLOSE: (who: string) => `${who} closed it`,
    SEVERITY: (who: string) => `${who} changed the severity`,
  },
  setTo: (who: string, severity: string) => `${who} set it to ${severity.toLowerCase()}`,
  did: {
    acknowledge: "Took the incident on",
    note: "Added a note",
    severity: "Changed the severity",
    close: "Closed the incident",
  },
  missing: "There is no such incident, or it is not yours.",
  toAll: "All incidents",
  now: "Now",
} as const;
