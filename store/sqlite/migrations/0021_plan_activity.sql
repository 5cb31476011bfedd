-- The plans that have runs, by project and environment, with the creation time of the newest run. A page of plans
-- reads this table instead of all runs (ADR 67).

-- +goose Up

CREATE TABLE plan_activity (
    tenant_id      TEXT NOT NULL,
    project_id     TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    plan_id        TEXT NOT NULL,
    last_run_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, project_id, environment_id, plan_id)
) STRICT, WITHOUT ROWID;

-- The order of pages of plans.
CREATE INDEX plan_activity_listed ON plan_activity (tenant_id, last_run_at, project_id, environment_id, plan_id);

-- An imported run may be older than the newest run.
-- +goose StatementBegin
CREATE TRIGGER run_plan_active AFTER INSERT ON run BEGIN
    INSERT INTO plan_activity (tenant_id, project_id, environment_id, plan_id, last_run_at)
    VALUES (new.tenant_id, new.project_id, new.environment_id, new.plan_id, new.created_at)
    ON CONFLICT (tenant_id, project_id, environment_id, plan_id) DO UPDATE SET last_run_at = excluded.last_run_at
    WHERE last_run_at < excluded.last_run_at;
END;
-- +goose StatementEnd

INSERT INTO plan_activity (tenant_id, project_id, environment_id, plan_id, last_run_at)
SELECT tenant_id, project_id, environment_id, plan_id, max(created_at) FROM run GROUP BY 1, 2, 3, 4;

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
