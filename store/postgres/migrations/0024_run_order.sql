-- When runs ended and how long they took, so that lists can be sorted by it (ADR 75). The columns are added and filled
-- ahead of this migration, and its indexes are built then.

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE run_status IN SHARE MODE;

CREATE INDEX IF NOT EXISTS run_status_ended_of_tenant ON run_status (tenant_id, status, ended_at, run_id)
  INCLUDE (project_id, environment_id) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS run_status_ended_of_project ON run_status (tenant_id, project_id, status, ended_at, run_id)
  INCLUDE (environment_id) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS run_status_ended_of_environment
  ON run_status (tenant_id, environment_id, status, ended_at, run_id) INCLUDE (project_id) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS run_status_ended_of_plan ON run_status (tenant_id, plan_id, status, ended_at, run_id)
  INCLUDE (project_id, environment_id) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS run_status_took_of_plan ON run_status (tenant_id, plan_id, status, took, run_id)
  INCLUDE (project_id, environment_id) WHERE took IS NOT NULL;

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
