-- The plans that have runs, by project and environment, with the creation time of the newest run. A page of plans
-- reads this table instead of all runs (ADR 67).

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE run IN SHARE ROW EXCLUSIVE MODE; -- no run is created between the first rows and the trigger

CREATE TABLE plan_activity (
  tenant_id      text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  plan_id        text COLLATE "C" NOT NULL,
  last_run_at    timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, project_id, environment_id, plan_id)
) WITH (fillfactor = 50);

-- The order of pages of plans.
CREATE INDEX plan_activity_listed ON plan_activity (tenant_id, last_run_at, project_id, environment_id, plan_id);

-- dvt_plan_active runs once for each statement, and writes in the order of the key, so that transactions that create
-- runs of the same plans cannot deadlock. It runs with the owner's rights, so that servers of the previous version,
-- whose role has no rights on this table, still create runs while servers are replaced. An imported run may be older
-- than the newest run.
-- +goose StatementBegin
CREATE FUNCTION dvt_plan_active() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO plan_activity AS p (tenant_id, project_id, environment_id, plan_id, last_run_at)
  SELECT tenant_id, project_id, environment_id, plan_id, max(created_at) FROM created GROUP BY 1, 2, 3, 4
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (tenant_id, project_id, environment_id, plan_id) DO UPDATE SET last_run_at = excluded.last_run_at
  WHERE p.last_run_at < excluded.last_run_at;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- A function that runs with the owner's rights resolves names in this schema only.
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION dvt_plan_active() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION dvt_plan_active() FROM PUBLIC;
CREATE TRIGGER run_plan_active AFTER INSERT ON run REFERENCING NEW TABLE AS created
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_plan_active();

INSERT INTO plan_activity (tenant_id, project_id, environment_id, plan_id, last_run_at)
SELECT tenant_id, project_id, environment_id, plan_id, max(created_at) FROM run GROUP BY 1, 2, 3, 4;

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
