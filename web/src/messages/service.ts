// The mode of the installation, and the freeze and share links of the tenant. They are loaded with their page.
import type { EngineMode } from "../api/gen/graphql";
import { plural } from "../format/format";

export const service = {
  title: "Service",
  mode: "Installation mode",
  tenant: "This tenant",
  since: "since",
  already: "This mode is set already.",
  modes: { NORMAL: "Normal", READ_ONLY: "Read-only", DRAINED: "Drained" } satisfies Record<EngineMode, string>,
  means: {
    NORMAL: "Runs start, and everything is published.",
    READ_ONLY: "No new run starts and nothing is published; pages read the store. Runs in progress continue.",
    DRAINED:
      "No new run starts; runs in progress continue to their end. When none is active, the installation may be stopped.",
  } satisfies Record<EngineMode, string>,
  setMode: (mode: string) => `Set to ${mode}`,
  everybody: "This concerns all tenants of the installation.",
  active: (n: number) => `${plural(n, "run is", "runs are")} active on this installation.`,
  frozen: "Frozen",
  notFrozen: "Not frozen",
  freeze: "Freeze the tenant",
  unfreeze: "Unfreeze the tenant",
  freezeMeans:
    "No new run starts in this tenant, and no run can be approved. Runs in progress continue, queued runs keep waiting, and a waiting run can be rejected. Approval deadlines keep running.",
  unfreezeMeans:
    "Runs start again, queued ones first. Approvals are possible again, as far as their time has not ended.",
  freezes: "Who froze and unfroze the tenant",
  noFreezes: "Nobody has frozen the tenant yet.",
  froze: "Froze",
  unfroze: "Unfroze",
  share: "Share links",
  shareOn: (hours: number) => `A link shows the status of one run without sign-in, for ${plural(hours, "hour")}.`,
  shareOff: "Nobody can make a link that shows a run without sign-in.",
  shareCount: "dvt stores no links, so it cannot count them. The audit lists who made each link:",
  shareMade: "links made",
  shareHours: "Hours that a link is valid (1 to 168)",
  sharePermit: "Permit share links",
  shareChange: "Change the hours",
  shareRevoke: "Revoke all links",
  shareForbid: "Forbid share links",
  sharePermitMeans:
    "Everybody who may see a run can make a link to its status. A reader of the link needs no account. Links that were made before stop working at once.",
  shareRevokeMeans: "All links that were made until now stop working at once. New ones can be made.",
  shareForbidMeans: "All links stop working at once, and nobody can make a new one.",
};
