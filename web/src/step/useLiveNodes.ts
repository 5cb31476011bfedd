import { useEffect, useRef, useState } from "react";
import { LiveNodesDocument, type LiveNodesQuery, type LiveNodesQueryVariables } from "../api/gen/graphql";
import { request } from "../api/request";

type Page = NonNullable<NonNullable<NonNullable<LiveNodesQuery["run"]>["step"]>["nodes"]>;
export type LiveNode = Page["edges"][number]["node"];

/**
 * The nodes that an attempt reported, by their ids, in the order in which they started. A change of `version` reads those
 * that changed since; one read at a time, so that fast changes cannot cancel each other. A read that fails is repeated by
 * the next change.
 */
export function useLiveNodes(runId: string, stepId: string, attempt: number | null, version: string) {
  const [nodes, setNodes] = useState<ReadonlyMap<string, LiveNode>>(new Map());
  const state = useRef({ seq: 0, busy: false, wanted: "", read: "", gone: false });
  useEffect(() => {
    const now = state.current;
    now.wanted = version;
    const read = async (): Promise<void> => {
      now.read = now.wanted;
      const got: LiveNode[] = [];
      let after: string | null = null;
      let upTo: number | null = null;
      do {
        const variables: LiveNodesQueryVariables = { runId, stepId, attempt, changedAfter: now.seq, after };
        const page: Page | null | undefined = (await request(LiveNodesDocument, variables)).run?.step?.nodes;
        if (!page) return;
        upTo ??= page.seq;
        got.push(...page.edges.map(({ node }) => node));
        after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
      } while (after !== null && !now.gone);
      now.seq = upTo;
      if (!now.gone && got.length > 0)
        setNodes((old) => new Map([...old, ...got.map((node) => [node.uniqueId, node] as const)]));
    };
    const follow = async (): Promise<void> => {
      now.busy = true;
      try {
        while (now.read !== now.wanted && !now.gone) await read();
      } catch {
        now.read = "";
      }
      now.busy = false;
    };
    if (!now.busy) void follow();
  }, [runId, stepId, attempt, version]);
  useEffect(() => {
    const now = state.current;
    now.gone = false;
    return () => {
      now.gone = true;
    };
  }, []);
  return nodes;
}
