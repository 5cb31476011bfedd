// The texts that many pages use, under one name. Those of one page or view are imported from their own file.
import { attention } from "./attention";
import { notes } from "./notes";
import { status } from "./status";
import { sync, cause, banner, serviceBanner } from "./live";
import { action, role, confirm, denied, receipt, menu } from "./actions";
import { nav, page, keys, help, palette, place, viewer, signIn, copyAs, share } from "./shell";
import { runs } from "./runs";
import { run, runKeys, details, artifacts, events, time, diff } from "./run";
import { step } from "./step";
import { plans } from "./plans";
import { compare } from "./compare";
import { bulk } from "./bulk";
import { start } from "./start";
import { inbox } from "./inbox";
import { queue } from "./queue";
import { admin, policy, breakGlass } from "./admin";

export const m = {
  app: "dvt",
  status,
  sync,
  cause,
  banner,
  serviceBanner,
  action,
  role,
  confirm,
  denied,
  receipt,
  menu,
  nav,
  page,
  keys,
  help,
  palette,
  place,
  viewer,
  signIn,
  attention,
  notes,
  runs,
  run,
  runKeys,
  details,
  artifacts,
  events,
  time,
  diff,
  step,
  plans,
  compare,
  bulk,
  start,
  inbox,
  queue,
  admin,
  policy,
  breakGlass,
  copyAs,
  share,
};
