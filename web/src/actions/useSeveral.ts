import { useCallback, useEffect, useRef, useState } from "react";
import { type ActionInput, PreviewDocument } from "../api/gen/graphql";
import type { Signal } from "../api/model";
import { request } from "../api/request";
import { toApiError } from "../api/error";
import { whileSeen } from "../api/whileSeen";
import { useRunState, useRunStore } from "../runstate/context";
import { receipts } from "../receipts/context";
import { buildInput, type Draft, EMPTY_DRAFT } from "./draft";
import { newIntent } from "./intent";
import {
  answered,
  newPart,
  type Part,
  previewed,
  renewed,
  reviewed,
  type Sender,
  type Several,
  sendEach,
} from "./several";
import { send } from "./send";
import { OLD_MS } from "./usePreview";
import { intents } from "./useSend";

const AT_ONCE = 4;
const SETTLE_MS = 300;

export interface SeveralSteps {
  parts: readonly Part[];
  /** Retries against the policy. */
  force: boolean;
  turnForce: (to: boolean) => void;
  sending: boolean;
  /** When the server accepts the next signal, by the local clock; 0 for now. */
  waitUntil: number;
  review: () => void;
  submit: (parts: readonly Part[], reason: string) => void;
}

/**
 * One action on several steps: the preview of each, asked for again when the step or the run's status changes, and the
 * receipt of each.
 */
export function useSeveral(action: Several, runId: string, stepIds: readonly string[]): SeveralSteps {
  const store = useRunStore();
  const [parts, setParts] = useState<readonly Part[]>(() =>
    stepIds.map((stepId) => newPart(stepId, store.step(stepId)?.logicalAttemptId ?? null)),
  );
  const [force, setForce] = useState(false);
  const [waitUntil, setWaitUntil] = useState(0);
  const [sending, setSending] = useState(false);
  const going = useRef<AbortController | null>(null);
  useEffect(() => () => going.current?.abort(), []);
  const change = useCallback(
    (stepId: string, to: (part: Part) => Part) =>
      setParts((held) => held.map((part) => (part.stepId === stepId ? to(part) : part))),
    [],
  );
  const inputOf = useCallback(
    ({ stepId, attempt }: Part, draft: Draft): ActionInput => {
      const asked = buildInput(newIntent(action, runId, stepId, attempt), draft, null);
      if ("missing" in asked) throw new Error(asked.missing);
      return asked.input;
    },
    [action, runId],
  );
  const tell: Sender["tell"] = (stepId, came) => change(stepId, (part) => answered(part, came));
  usePreviews(parts, force, inputOf, change);

  const submit = (chosen: readonly Part[], reason: string): void => {
    if (going.current !== null) return;
    const stop = new AbortController();
    going.current = stop;
    setSending(true);
    const draft = { ...EMPTY_DRAFT, reason, force };
    const sendOne = async (part: Part): Promise<Signal> => {
      const input = inputOf(part, draft);
      const intent = intents.sending(
        { action, runId, stepId: part.stepId, logicalAttemptId: part.attempt },
        draft,
        JSON.stringify([input, draft]),
      );
      const { signal } = await send(intent, input, draft, part.preview?.basedOnSeq ?? 0);
      intents.forget(intent);
      if (signal === null) throw new Error("a signal to a step has a receipt");
      receipts.receive(signal);
      return signal;
    };
    const wait = (ms: number): Promise<void> => {
      setWaitUntil(Date.now() + ms);
      return new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        stop.signal.addEventListener("abort", () => {
          clearTimeout(timer);
          resolve();
        });
      }).then(() => setWaitUntil(0));
    };
    void sendEach(chosen, { send: sendOne, tell, wait }, stop.signal).finally(() => {
      going.current = null;
      setSending(false);
    });
  };
  const turnForce = (to: boolean): void => {
    setForce(to);
    setParts((held) => held.map(renewed));
  };
  return { parts, force, turnForce, sending, waitUntil, submit, review: () => setParts((held) => held.map(reviewed)) };
}

/**
 * Asks for the preview of each step without a receipt: first at once, then when the step or the run's status changes,
 * and every 30 s while the page is visible.
 */
function usePreviews(
  parts: readonly Part[],
  force: boolean,
  inputOf: (part: Part, draft: Draft) => ActionInput,
  change: (stepId: string, to: (part: Part) => Part) => void,
): void {
  const store = useRunStore();
  const status = useRunState(({ header }) => `${header()?.status}/${header()?.substatus}`);
  const [round, setRound] = useState(0);
  const open = useRef(parts);
  open.current = parts;
  // Failed parts need a new preview although no input has changed.
  const stale = parts.filter((part) => part.failure !== null && part.preview === null).length;
  useEffect(() => {
    const abort = new AbortController();
    const askEach = async (): Promise<void> => {
      const left = open.current.filter((part) => part.receipt === null);
      const worker = async (): Promise<void> => {
        for (let part = left.shift(); part && !abort.signal.aborted; part = left.shift()) {
          const { stepId } = part;
          await request(
            PreviewDocument,
            { action: inputOf(part, { ...EMPTY_DRAFT, reason: "-", force }) },
            abort.signal,
          )
            .then(({ preview }) => change(stepId, (held) => previewed(held, preview)))
            .catch((cause: unknown) => {
              if (!abort.signal.aborted)
                change(stepId, (held) => ({ ...held, preview: null, unasked: toApiError(cause) }));
            });
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
    };
    const first = open.current.every((part) => part.preview === null);
    const stop = whileSeen(OLD_MS, askEach, first ? 0 : SETTLE_MS);
    return () => {
      stop();
      abort.abort();
    };
  }, [force, status, round, stale, inputOf, change]);
  useEffect(
    () =>
      store.subscribeSteps((changed) => {
        if (open.current.some((part) => part.receipt === null && changed.has(part.stepId))) setRound((n) => n + 1);
      }),
    [store],
  );
}
