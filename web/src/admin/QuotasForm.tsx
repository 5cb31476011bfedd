import type { BackpressureStrategy, QuotaLimitsInput, QuotaSettingsInput } from "../api/gen/graphql";
import { count } from "../format/format";
import { m } from "../messages";
import { quota as words } from "../messages/quota";
import css from "../styles/Form.module.css";
import type { DocumentForm } from "./EditDocument";
import { NumberField, Rows, SelectField, TextField } from "./Rows";

const LIMITS = [
  "startRunPerMinute",
  "heavyStepsPerMinute",
  "signalOpsPerMinute",
  "maxActive",
  "maxQueueDepth",
] as const satisfies readonly (keyof QuotaLimitsInput)[];

const STRATEGIES = Object.entries(words.strategies) as [BackpressureStrategy | "", string][];
const SECOND_MS = 1_000;

type Limits = QuotaLimitsInput | null | undefined;

interface LimitFieldsProps {
  limits: Limits;
  /** The limits of the tier, which an empty field inherits. */
  most: Limits;
  set: (limits: QuotaLimitsInput) => void;
}

function LimitFields({ limits, most, set }: LimitFieldsProps) {
  return LIMITS.map((limit) => (
    <NumberField
      key={limit}
      label={words.limits[limit]}
      value={limits?.[limit] ?? null}
      placeholder={most?.[limit] == null ? undefined : words.ofTier(count(most[limit]))}
      set={(value) => set({ ...limits, [limit]: value })}
    />
  ));
}

/** The limits of the tenant and of its projects. The server checks the document. */
export function QuotasForm({ document, change, most = null }: Parameters<DocumentForm>[0] & { most?: Limits }) {
  const settings = document as QuotaSettingsInput;
  const set = (part: Partial<QuotaSettingsInput>): void => change({ ...settings, ...part });
  const { projects = [], ttlMs } = settings;
  return (
    <>
      <fieldset className={css.group}>
        <legend>{words.tenant}</legend>
        <div className={css.row}>
          <LimitFields limits={settings.tenant} most={most} set={(tenant) => set({ tenant })} />
        </div>
        <p className={css.hint}>{words.inherit}</p>
      </fieldset>
      <Rows
        head={words.projects}
        rows={projects}
        rowName={(project) => words.projectOf(project.projectId)}
        what={words.project}
        fresh={{ projectId: "", limits: {}, weight: 1 }}
        change={(rows) => set({ projects: rows })}
      >
        {(project, setRow) => (
          <>
            <TextField label={m.policy.project} value={project.projectId} set={(projectId) => setRow({ projectId })} />
            <NumberField
              label={words.weight}
              min={1}
              value={project.weight ?? 1}
              set={(weight) => setRow({ weight: weight ?? 1 })}
            />
            <LimitFields limits={project.limits} most={null} set={(limits) => setRow({ limits })} />
          </>
        )}
      </Rows>
      <div className={css.row}>
        <SelectField
          label={words.strategy}
          value={settings.strategy ?? ""}
          options={STRATEGIES}
          set={(strategy) => set({ strategy: strategy === "" ? null : strategy })}
        />
        <NumberField
          label={words.ttl}
          value={typeof ttlMs === "number" ? ttlMs / SECOND_MS : null}
          set={(seconds) => set({ ttlMs: seconds === null ? null : seconds * SECOND_MS })}
        />
      </div>
    </>
  );
}
