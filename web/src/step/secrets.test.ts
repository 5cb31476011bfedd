import { describe, expect, it } from "vitest";
import { secretNames } from "./secrets";

describe("the secrets that a step names", () => {
  it("are told apart by provider, key and version", () => {
    const secrets = [
      { provider: "vault", key: "warehouse/password", version: "3" },
      { provider: "vault", key: "warehouse/password", version: null },
      { provider: "env", key: "warehouse/password", version: null },
    ];
    expect(secretNames({ secrets, inputs: {}, params: null })).toEqual([
      "vault:warehouse/password@3",
      "vault:warehouse/password",
      "env:warehouse/password",
    ]);
  });

  it("are found within inputs and parameters too, each once", () => {
    const secrets = [{ provider: "vault", key: "a", version: null }];
    const inputs = {
      vars: { token: { provider: "vault", key: "a" }, list: [{ provider: "aws-sm", key: "b", version: "7" }] },
      provider: "vault",
      key: 5,
    };
    expect(secretNames({ secrets, inputs, params: { login: { provider: "gcp-sm", key: "c", value: "***" } } })).toEqual(
      ["vault:a", "aws-sm:b@7", "gcp-sm:c"],
    );
  });

  it("end where documents end", () => {
    let deep: unknown = { provider: "vault", key: "a" };
    for (let i = 0; i < 1_000; i++) deep = { deep };
    expect(secretNames({ secrets: [], inputs: deep, params: "vault:a" })).toEqual([]);
  });
});
