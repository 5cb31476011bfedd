-- When runs ended and how long they took, so that lists can be sorted by it (ADR 75).

-- +goose Up

-- Both in microseconds; NULL until the run has ended, and took also for a run that never started. A save sets them only
-- with the status, so that other saves do not write the indexes.
ALTER TABLE run_state ADD COLUMN ended_at INTEGER;
ALTER TABLE run_state ADD COLUMN took INTEGER;
-- unixepoch knows milliseconds; the digits behind them come from the text, which is UTC and ends with Z.
UPDATE run_state SET
    ended_at = unixepoch(header ->> '$.completedAt') * 1000000
        + CAST(substr(rtrim(substr(header ->> '$.completedAt', 21), 'Z') || '000000', 1, 6) AS INTEGER),
    took = max(0, unixepoch(header ->> '$.completedAt') * 1000000
        + CAST(substr(rtrim(substr(header ->> '$.completedAt', 21), 'Z') || '000000', 1, 6) AS INTEGER)
        - unixepoch(header ->> '$.startedAt') * 1000000
        - CAST(substr(rtrim(substr(header ->> '$.startedAt', 21), 'Z') || '000000', 1, 6) AS INTEGER))
WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND header ->> '$.completedAt' IS NOT NULL;

CREATE INDEX run_state_ended_tenant ON run_state (tenant_id, status, ended_at, run_id) WHERE ended_at IS NOT NULL;
CREATE INDEX run_state_ended_project
    ON run_state (tenant_id, project_id, status, ended_at, run_id, environment_id) WHERE ended_at IS NOT NULL;
CREATE INDEX run_state_ended_environment
    ON run_state (tenant_id, environment_id, status, ended_at, run_id, project_id) WHERE ended_at IS NOT NULL;
CREATE INDEX run_state_ended_plan
    ON run_state (tenant_id, plan_id, status, ended_at, run_id, project_id, environment_id) WHERE ended_at IS NOT NULL;
CREATE INDEX run_state_took_plan
    ON run_state (tenant_id, plan_id, status, took, run_id, project_id, environment_id) WHERE took IS NOT NULL;

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
