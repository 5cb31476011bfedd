import { useState } from "react";
import { newId } from "../api/newId";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { MayNot, useMay } from "../session/MayNot";
import { type EngineMode, FreezeDocument, ServiceDocument, SetModeDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { service as serviceWords } from "../messages/service";
import { ReasonDialog } from "../forms/ReasonDialog";
import { Button } from "../ui/Button";
import css from "../styles/Form.module.css";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { Time } from "../ui/Time";
import { useCan } from "../session/useCan";
import { FreezeHistory } from "./FreezeHistory";
import { ShareLinks } from "./ShareLinks";

const MODES = ["NORMAL", "READ_ONLY", "DRAINED"] as const satisfies readonly EngineMode[];

type Wanted = { requestId: string } & ({ mode: EngineMode } | { frozen: boolean });

/** The mode of the installation and the freeze of the tenant. */
export function ServicePanel() {
  const service = useQuery(ServiceDocument, {}, (result) => result.service);
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const mode = useMay("SET_ENGINE_MODE");
  const freeze = useMay("FREEZE_TENANT");
  const mayReadAudit = useCan("READ_AUDIT") === null;
  const now = service.answer;
  const act = async (reason: string): Promise<void> => {
    if (!wanted) return;
    const { requestId } = wanted;
    const effect = { page: "service" } as const;
    if ("mode" in wanted) {
      const { setEngineMode } = await request(SetModeDocument, { input: { requestId, mode: wanted.mode, reason } });
      const what = m.receipt.modeSet(serviceWords.modes[wanted.mode]);
      recordDone({ topic: "mode", what, effect, change: setEngineMode.change });
    } else {
      const { freezeTenant } = await request(FreezeDocument, { input: { requestId, frozen: wanted.frozen, reason } });
      const what = wanted.frozen ? m.receipt.froze : m.receipt.unfroze;
      recordDone({ topic: "freeze", what, effect, change: freezeTenant.change });
    }
    service.again();
  };
  const title = wanted
    ? "mode" in wanted
      ? serviceWords.setMode(serviceWords.modes[wanted.mode])
      : wanted.frozen
        ? serviceWords.freeze
        : serviceWords.unfreeze
    : "";
  return (
    <>
      <PageHead title={serviceWords.title} asOf={service.asOf} refresh={service.again} />
      {service.error !== null && <Problem error={service.error} retry={service.again} />}
      {!now && service.error === null && <Skeleton rows={4} label={m.sync.LOADING} />}
      {now && (
        <>
          <section className={css.section}>
            <h2>{serviceWords.mode}</h2>
            <p>
              <strong>{serviceWords.modes[now.mode]}</strong>
              {now.modeSince && (
                <>
                  {" "}
                  {serviceWords.since} <Time at={instant(now.modeSince)} format="full" />
                </>
              )}
              {now.modeReason && `: ${now.modeReason}`}
            </p>
            <p className={css.hint}>{serviceWords.means[now.mode]}</p>
            {now.activeRuns !== null && <p>{serviceWords.active(now.activeRuns)}</p>}
            <div className={css.row}>
              {MODES.map((name) => (
                <Button
                  key={name}
                  pressed={name === now.mode}
                  refusal={name === now.mode ? serviceWords.already : mode.refusal}
                  saidBy={name === now.mode ? undefined : mode.saidBy}
                  onClick={() => setWanted({ mode: name, requestId: `ui-${newId()}` })}
                >
                  {serviceWords.setMode(serviceWords.modes[name])}…
                </Button>
              ))}
            </div>
            <MayNot of={mode} />
            <DoneLine topic="mode" />
          </section>
          <section className={css.section}>
            <h2>{serviceWords.tenant}</h2>
            <p>
              <strong>{now.frozen ? serviceWords.frozen : serviceWords.notFrozen}</strong>
              {now.frozenSince && (
                <>
                  {" "}
                  {serviceWords.since} <Time at={instant(now.frozenSince)} format="full" />
                </>
              )}
              {now.frozenReason && `: ${now.frozenReason}`}
            </p>
            <div className={css.row}>
              <Button
                kind={now.frozen ? "plain" : "danger"}
                refusal={freeze.refusal}
                saidBy={freeze.saidBy}
                onClick={() => setWanted({ frozen: !now.frozen, requestId: `ui-${newId()}` })}
              >
                {now.frozen ? serviceWords.unfreeze : serviceWords.freeze}…
              </Button>
            </div>
            <MayNot of={freeze} />
            <DoneLine topic="freeze" />
            {mayReadAudit && <FreezeHistory version={`${now.frozen} ${now.frozenSince}`} frozen={now.frozen} />}
          </section>
          <ShareLinks hours={now.shareLinkHours} refresh={service.again} />
        </>
      )}
      {wanted && (
        <ReasonDialog
          title={title}
          verb={title}
          reason="required"
          danger
          // A mode stops the starts of all tenants, so nobody sets it by a quick Enter.
          {...("mode" in wanted && wanted.mode !== "NORMAL" ? { word: serviceWords.modes[wanted.mode] } : {})}
          act={act}
          onClose={() => setWanted(null)}
        >
          <p>
            {"mode" in wanted
              ? serviceWords.means[wanted.mode]
              : wanted.frozen
                ? serviceWords.freezeMeans
                : serviceWords.unfreezeMeans}
          </p>
          {"mode" in wanted && <p>{serviceWords.everybody}</p>}
          {"mode" in wanted && now?.activeRuns != null && <p>{serviceWords.active(now.activeRuns)}</p>}
        </ReasonDialog>
      )}
    </>
  );
}
