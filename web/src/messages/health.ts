// How dvt is.
import type { HealthStatus } from "../api/gen/graphql";

export const health = {
  title: "Health",
  part: "Part",
  status: "Status",
  latency: "Answers in",
  means: "What it means",
  abilities: "What the engine can do",
  ability: "Ability",
  engine: "Engine",
  support: "Support",
  note: "Note",
  words: { HEALTHY: "Healthy", DEGRADED: "Degraded", UNHEALTHY: "Unhealthy" } satisfies Record<HealthStatus, string>,
  says: {
    HEALTHY: "Everything that dvt depends on answers.",
    DEGRADED: "dvt works, except for what the table shows.",
    UNHEALTHY: "Nothing can be changed, and views are stale, until the store answers.",
  } satisfies Record<HealthStatus, string>,
  parts: { stateStore: "State store", engine: "Engine", temporal: "Temporal", eventBus: "Event bus", artifactStore: "Artifacts", secretsProvider: "Secrets" } as Record<string, string>,
};
