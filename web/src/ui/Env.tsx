import css from "./Env.module.css";

const PRODUCTION = /^(prod|production|live)$|^(prod|production)[-_]|[-_](prod|production)$/i;

/** Whether the name of an environment says that it is production. */
export function isProduction(environmentId: string): boolean {
  return PRODUCTION.test(environmentId);
}

/** An environment; production is a solid band with the word, not just a colour. */
export function Env({ id }: { id: string }) {
  return isProduction(id) ? (
    <strong className={css.band} title={id}>
      {id.toUpperCase()}
    </strong>
  ) : (
    <span className={css.plain} title={id}>
      {id}
    </span>
  );
}

/** The project and environment of a run. */
export function Where({ project, environment }: { project: string; environment: string }) {
  return (
    <span>
      {project} / <Env id={environment} />
    </span>
  );
}
