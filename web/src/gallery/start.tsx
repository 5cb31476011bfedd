// The parts of the form of a new run.
import type { QuotasQuery } from "../api/gen/graphql";
import { ApiError } from "../api/error";
import { m } from "../messages";
import { CheckPanel } from "../start/CheckPanel";
import { type Draft, newDraft } from "../start/draft";
import { ParamsField } from "../start/ParamsField";
import { PlanField } from "../start/PlanField";
import type { Check } from "../start/useCheck";
import { ANSWERS, RUN } from "../testing/fixtures";
import type { State } from "./state";

const nothing = (): void => {};

function quotas(active: number): QuotasQuery["quotas"] {
  return [
    {
      projectId: "shop",
      active,
      maxActive: 20,
      queueDepth: 0,
      maxQueueDepth: 100,
      buckets: [{ action: "START_RUN", perMinute: 60, tokensRemaining: 41, usedPercent: 32, nextRefillAt: null }],
    },
  ];
}

const PREVIEW = ANSWERS.data.preview;
const CHECKS: Record<string, { check: Partial<Check>; missing?: string }> = {
  missing: { check: {}, missing: m.start.noPlan },
  checking: { check: { current: false } },
  starts: { check: { preview: PREVIEW, quotas: quotas(3) } },
  waits: { check: { preview: PREVIEW, quotas: quotas(20) } },
  refused: {
    check: {
      preview: {
        ...PREVIEW,
        outcome: "REFUSED",
        code: "FORBIDDEN",
        reason: "Needs Engineer on shop / prod; you are Operator.",
        changes: [],
        warnings: [],
      },
    },
  },
  failed: { check: { error: new ApiError("The store did not answer in time.", { code: "STORE_UNAVAILABLE" }) } },
};

const PLANS: Record<string, Partial<Draft>> = {
  inline: { plan: '{ "schemaVersion": "v1.2", "steps": [] }' },
  ref: {
    source: "ref",
    ref: {
      uri: "s3://plans/nightly.json",
      sha256: "9f2c4be1".repeat(8),
      schemaVersion: "v1.2",
      planId: "nightly",
      planVersion: "1.4.2",
    },
  },
  run: { source: "run", from: RUN },
};

function params(name: string, text: string, raw = false, problem: string | null = null): State {
  return {
    name: `start-params-${name}`,
    show: () => <ParamsField text={text} change={nothing} raw={raw} setRaw={nothing} problem={problem} />,
  };
}

export function starts(): State[] {
  return [
    ...Object.entries(PLANS).map(([name, given]) => ({
      name: `start-plan-${name}`,
      show: () => (
        <PlanField
          draft={newDraft("", given)}
          change={nothing}
          problems={[]}
          invalid={false}
          describedBy=""
          ref={null}
        />
      ),
    })),
    {
      name: "start-plan-invalid",
      show: () => (
        <PlanField
          draft={newDraft("", { plan: "a: 1\na: 2\n" })}
          change={nothing}
          problems={[{ line: 2, message: "twice" }]}
          invalid
          describedBy=""
          ref={null}
        />
      ),
    },
    params("rows", '{"day":"2026-11-21"}'),
    params("none", ""),
    params("deep", '{"days":{"from":1}}'),
    params("wrong", "{", true, m.start.notJson),
    ...Object.entries(CHECKS).map(([name, { check, missing }]) => ({
      name: `start-check-${name}`,
      show: () => (
        <CheckPanel
          no={4}
          check={{ preview: null, quotas: [], error: null, current: true, ...check }}
          missing={missing ?? null}
          projectId="shop"
        />
      ),
    })),
  ];
}
