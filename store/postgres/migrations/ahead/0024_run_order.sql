-- From now on the end of a run sets both columns. The existing rows are filled in the next step.
SET LOCAL lock_timeout = '1s';
LOCK TABLE run_state, run_status IN ACCESS EXCLUSIVE MODE; -- in the order in which servers lock them

-- ended_at is NULL until the run has ended. took is in microseconds, and NULL also for a run that never started.
ALTER TABLE run_status ADD COLUMN IF NOT EXISTS ended_at timestamptz;
ALTER TABLE run_status ADD COLUMN IF NOT EXISTS took bigint;

-- The trigger reads the header, so that a server of the previous version fills the columns too.
CREATE OR REPLACE FUNCTION dvt_took(header json) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT greatest(0, (extract(epoch FROM (header ->> 'completedAt')::timestamptz - (header ->> 'startedAt')::timestamptz)
    * 1000000)::bigint)
  WHERE header ->> 'completedAt' IS NOT NULL AND header ->> 'startedAt' IS NOT NULL
$$;
CREATE OR REPLACE FUNCTION dvt_list_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    WITH facts AS (
      SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.created_at, r.triggered_by
      FROM run r WHERE r.run_id = NEW.run_id
    ), plan AS (
      INSERT INTO run_plan SELECT tenant_id, plan_id, project_id FROM facts ON CONFLICT DO NOTHING
    )
    INSERT INTO run_status (run_id, tenant_id, project_id, environment_id, plan_id, status, created_at, triggered_by,
      ended_at, took)
    SELECT run_id, tenant_id, project_id, environment_id, plan_id, NEW.status, created_at, triggered_by,
      (NEW.header ->> 'completedAt')::timestamptz, dvt_took(NEW.header) FROM facts
    ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, ended_at = excluded.ended_at, took = excluded.took;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE run_status s SET status = NEW.status, ended_at = (NEW.header ->> 'completedAt')::timestamptz,
      took = dvt_took(NEW.header) WHERE s.run_id = NEW.run_id;
  ELSE -- without a checkpoint: pending
    UPDATE run_status s SET status = 'PENDING', ended_at = NULL, took = NULL WHERE s.run_id = OLD.run_id;
  END IF;
  RETURN NULL;
END $$;
