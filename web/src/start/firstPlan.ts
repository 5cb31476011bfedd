// A plan to begin with: it runs on every worker, in the project and environment of `dvt dev`.
export const FIRST = { project: "shop", env: "dev" } as const;

export function firstPlan(tenantId: string): string {
  return `schemaVersion: v1.2
metadata:
  planId: my-plan
  planVersion: "1.0" # increase it with every change of the plan
  schemaVersion: v1.2
  createdAt: "2026-01-01T00:00:00Z"
  createdBy: me
scope: # where it may run
  tenantId: ${tenantId}
  projectId: ${FIRST.project}
  environmentId: ${FIRST.env}
  repoSha: "0000000000000000000000000000000000000000" # the commit that the plan was made from
steps:
  - stepId: hello
    type: COMMAND # a program of the worker's machine
    timeout: 1m
    inputs:
      argv: [echo, hello]
  - stepId: done
    type: NOOP
    dependsOn: [hello] # starts when these steps have succeeded
    timeout: 1m
    inputs: {}
`;
}
