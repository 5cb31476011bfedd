-- What lists of runs look at, so that their price does not grow with the runs that are not on the page.

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE run, run_state IN SHARE ROW EXCLUSIVE MODE; -- nobody creates or saves between the backfill and the triggers; appends go on

CREATE INDEX IF NOT EXISTS run_of_project ON run (tenant_id, project_id, created_at, run_id) INCLUDE (environment_id);
CREATE INDEX IF NOT EXISTS run_of_environment ON run (tenant_id, environment_id, created_at, run_id);
CREATE INDEX IF NOT EXISTS run_of_plan ON run (tenant_id, plan_id, created_at, run_id);

-- The status of each checkpoint beside the facts of its run: narrow, and written when
-- the status changes alone. An index on run_state would be written by every save.
CREATE TABLE run_status (
  run_id         text COLLATE "C" PRIMARY KEY,
  tenant_id      text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  plan_id        text COLLATE "C" NOT NULL,
  status         text COLLATE "C" NOT NULL,
  created_at     timestamptz NOT NULL
);
INSERT INTO run_status SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, coalesce(st.status, 'PENDING'), r.created_at
FROM run r LEFT JOIN run_state st USING (run_id) ORDER BY r.created_at;
CREATE INDEX run_status_of_tenant ON run_status (tenant_id, status, created_at, run_id);
CREATE INDEX run_status_of_project ON run_status (tenant_id, project_id, status, created_at, run_id);
CREATE INDEX run_status_of_environment ON run_status (tenant_id, environment_id, status, created_at, run_id);
CREATE INDEX run_status_of_plan ON run_status (tenant_id, plan_id, status, created_at, run_id);

-- The plans that a tenant's projects have run: a part of a planId is looked for here.
CREATE TABLE run_plan (
  tenant_id  text COLLATE "C" NOT NULL,
  plan_id    text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, plan_id, project_id)
);
INSERT INTO run_plan SELECT DISTINCT tenant_id, plan_id, project_id FROM run;

-- +goose StatementBegin
CREATE FUNCTION dvt_list_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    WITH facts AS (
      SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.created_at FROM run r WHERE r.run_id = NEW.run_id
    ), plan AS (
      INSERT INTO run_plan SELECT tenant_id, plan_id, project_id FROM facts ON CONFLICT DO NOTHING
    )
    INSERT INTO run_status SELECT run_id, tenant_id, project_id, environment_id, plan_id, NEW.status, created_at FROM facts
    ON CONFLICT (run_id) DO UPDATE SET status = excluded.status;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE run_status s SET status = NEW.status WHERE s.run_id = NEW.run_id;
  ELSE
    UPDATE run_status s SET status = 'PENDING' WHERE s.run_id = OLD.run_id; -- what a run without a checkpoint is
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER run_state_listed AFTER INSERT OR DELETE ON run_state
  FOR EACH ROW EXECUTE FUNCTION dvt_list_run();
CREATE TRIGGER run_state_moved AFTER UPDATE OF status ON run_state
  FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION dvt_list_run();

-- Servers of the version before write the new tables through the triggers: who may make runs may do that, from now on.
-- +goose StatementBegin
DO $$
DECLARE
  who text;
BEGIN
  FOR who IN SELECT a.grantee::regrole::text FROM pg_class c, aclexplode(c.relacl) a
    WHERE c.oid = 'run'::regclass AND a.privilege_type = 'INSERT' AND a.grantee <> 0 AND a.grantee <> c.relowner LOOP
    EXECUTE 'GRANT SELECT, INSERT, UPDATE ON run_status TO ' || who;
    EXECUTE 'GRANT SELECT, INSERT ON run_plan TO ' || who;
  END LOOP;
END $$;
-- +goose StatementEnd

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
