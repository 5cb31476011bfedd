// The runs that the pictures show.
import type { PlanStep } from "../e2e/page";

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };

function sleep(stepId: string, ms: number, dependsOn: string[] = []): PlanStep {
  return { stepId, type: "SLEEP", dependsOn, inputs: { ms } };
}

/** A shop's night: staging fails until somebody mends it, and holds up what is built on it. */
export function nightly(file: string): PlanStep[] {
  const sources = ["src_customers", "src_orders", "src_payments", "src_products"];
  return [
    ...sources.map((stepId) => sleep(stepId, 150)),
    sleep("stg_customers", 500, ["src_customers"]),
    {
      stepId: "stg_orders",
      type: "COMMAND",
      dependsOn: ["src_orders"],
      inputs: {
        argv: ["sh", "-c", `printf 'reading %s\\n' "$1"; printf 'checking columns\\n'; wc -l "$1"`, "sh", file],
      },
      retry: ONCE,
    },
    sleep("stg_payments", 700, ["src_payments"]),
    sleep("stg_products", 300, ["src_products"]),
    sleep("int_sessions", 900, ["stg_customers", "stg_products"]),
    sleep("int_order_items", 200, ["stg_orders", "stg_products"]),
    sleep("fct_orders", 200, ["int_order_items", "stg_payments", "stg_customers"]),
    sleep("fct_revenue", 200, ["fct_orders"]),
    sleep("dim_customers", 300, ["int_sessions"]),
    { stepId: "report", type: "NOOP", dependsOn: ["fct_revenue", "dim_customers"], inputs: {} },
  ];
}

export function calm(): PlanStep[] {
  return [
    sleep("extract", 200),
    sleep("load", 300, ["extract"]),
    sleep("test", 200, ["load"]),
    sleep("publish", 100, ["test"]),
  ];
}

export function slow(): PlanStep[] {
  return [sleep("extract", 600_000), sleep("load", 600_000), sleep("publish", 100, ["extract", "load"])];
}

/** A project of 1,500 models in layers. One model fails. */
export function large(file: string): PlanStep[] {
  const [count, wide] = [1_500, 75];
  return Array.from({ length: count }, (_, i) => {
    const before = i < wide ? [] : [...new Set([i - wide, i - wide - ((i * 13) % 9)])].filter((n) => n >= 0);
    const dependsOn = before.map((n) => `model_${n}`);
    if (i === 640)
      return { stepId: `model_${i}`, type: "COMMAND", dependsOn, inputs: { argv: ["ls", file] }, retry: ONCE };
    return sleep(`model_${i}`, 100 + ((i * 37) % 400), dependsOn);
  });
}
