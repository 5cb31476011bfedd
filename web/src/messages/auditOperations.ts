// The audit of alerts, incidents, workers and destinations. Only the pages of the audit load it.

/** Accepted changes in a sentence. */
export const operations = {
  acknowledged: (code: string) => `Acknowledged ${code === "" ? "an alert" : `the alert ${code}`}`,
  silenced: (which: string, until: string) => `Silenced the alerts ${which} until ${until}`,
  unsilenced: (which: string) => `Ended the silence of the alerts ${which}`,
  which: {
    code: (code: string) => `with the code ${code}`,
    plan: (plan: string) => `of plan ${plan}`,
    project: (project: string) => `of project ${project}`,
    run: "of the run",
  },
  drained: (worker: string) => `Drained the worker ${worker}: it begins no further steps`,
  undrained: (worker: string) => `Ended the drain of the worker ${worker}: it begins steps again`,
  linked: (uri: string) => `Made a link for 5 minutes of the artifact ${uri.slice(uri.lastIndexOf("/") + 1)}`,
  recovery: (mode: string) => `Set the recovery of runs that hang to ${mode}`,
  plan: (id: string) => `plan ${id}`,
};

/** The names of actions, in the list of the filter and in refusals. */
export const operationNames: Readonly<Record<string, string>> = {
  ANNOTATE: "Tag, note, acknowledge or silence",
  ACKNOWLEDGE_ALERT: "Acknowledge an alert",
  SILENCE_ALERTS: "Silence alerts",
  END_SILENCE: "End a silence of alerts",
  DRAIN_WORKER: "Drain a worker",
  END_WORKER_DRAIN: "End the drain of a worker",
  LINK_ARTIFACT: "Link an artifact",
  SET_RECOVERY: "Set the recovery of runs that hang",
  ACKNOWLEDGE_INCIDENT: "Acknowledge an incident",
  NOTE_INCIDENT: "Add a note to an incident",
  CLOSE_INCIDENT: "Close an incident",
  SET_SEVERITY_INCIDENT: "Set the severity of an incident",
  CHECK_SECRETS: "Check secrets",
  REVOKE_SECRETS: "Revoke secrets",
  TEST_DESTINATION: "Test a destination",
  ENABLE_DESTINATION: "Enable a destination",
  DISABLE_DESTINATION: "Disable a destination",
  REPLAY_DESTINATION: "Replay messages to a destination",
};
