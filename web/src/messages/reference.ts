// The reference of a run to its plan. It is loaded with the details of a run.
export const reference = {
  schema: "Plan schema",
  deprecated: (version: string, end: string) => `${version} is deprecated: dvt reads it until ${end}`,
  uri: "Plan address",
  mirrors: "Mirrors of the plan",
  answeredBy: "Plan came from",
  compression: "Plan compression",
  expires: "Plan reference expires",
  evolution: "Schema evolution",
  migration: "Migration",
  migrates: (from: string, to: string, script: string | null) =>
    `${from} to ${to}${script === null ? "" : ` by ${script}`}`,
};
