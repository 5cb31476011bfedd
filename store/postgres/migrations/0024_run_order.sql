-- When runs ended and how long they took, so that lists can be sorted by it (ADR 75).

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE run_state, run_status IN ACCESS EXCLUSIVE MODE; -- in the order in which servers lock them

-- ended_at is NULL until the run has ended. took is in microseconds, and NULL also for a run that never started.
ALTER TABLE run_status ADD COLUMN ended_at timestamptz;
ALTER TABLE run_status ADD COLUMN took bigint;

-- The trigger reads the header, so that a server of the previous version fills the columns too.
-- +goose StatementBegin
CREATE FUNCTION dvt_took(header json) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT greatest(0, (extract(epoch FROM (header ->> 'completedAt')::timestamptz - (header ->> 'startedAt')::timestamptz)
    * 1000000)::bigint)
  WHERE header ->> 'completedAt' IS NOT NULL AND header ->> 'startedAt' IS NOT NULL
$$;
-- +goose StatementEnd
-- +goose StatementBegin
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
-- +goose StatementEnd

UPDATE run_status s SET ended_at = (st.header ->> 'completedAt')::timestamptz, took = dvt_took(st.header)
FROM run_state st WHERE st.run_id = s.run_id AND s.status IN ('COMPLETED', 'FAILED', 'CANCELLED');

CREATE INDEX run_status_ended_of_tenant ON run_status (tenant_id, status, ended_at, run_id)
  INCLUDE (project_id, environment_id) WHERE ended_at IS NOT NULL;
CREATE INDEX run_status_ended_of_project ON run_status (tenant_id, project_id, status, ended_at, run_id)
  INCLUDE (environment_id) WHERE ended_at IS NOT NULL;
CREATE INDEX run_status_ended_of_environment ON run_status (tenant_id, environment_id, status, ended_at, run_id)
  INCLUDE (project_id) WHERE ended_at IS NOT NULL;
CREATE INDEX run_status_ended_of_plan ON run_status (tenant_id, plan_id, status, ended_at, run_id)
  INCLUDE (project_id, environment_id) WHERE ended_at IS NOT NULL;
CREATE INDEX run_status_took_of_plan ON run_status (tenant_id, plan_id, status, took, run_id)
  INCLUDE (project_id, environment_id) WHERE took IS NOT NULL;

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
