-- From now on new rows get their label. The existing rows are filled in the next step.
SET LOCAL lock_timeout = '1s';
LOCK TABLE run_state, run_status IN ACCESS EXCLUSIVE MODE; -- in the order in which servers lock them

ALTER TABLE run_status ADD COLUMN IF NOT EXISTS label text COLLATE "C" NOT NULL DEFAULT '';

CREATE OR REPLACE FUNCTION dvt_list_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    WITH facts AS (SELECT * FROM run r WHERE r.run_id = NEW.run_id),
    plan AS (INSERT INTO run_plan SELECT tenant_id, plan_id, project_id FROM facts ON CONFLICT DO NOTHING)
    INSERT INTO run_status (run_id, tenant_id, project_id, environment_id, plan_id, status, created_at, triggered_by, label)
    SELECT run_id, tenant_id, project_id, environment_id, plan_id, NEW.status, created_at, triggered_by, triggered_by
    FROM facts ON CONFLICT (run_id) DO UPDATE SET status = excluded.status;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE run_status s SET status = NEW.status WHERE s.run_id = NEW.run_id;
  ELSE
    UPDATE run_status s SET status = 'PENDING' WHERE s.run_id = OLD.run_id;
  END IF;
  RETURN NULL;
END $$;
