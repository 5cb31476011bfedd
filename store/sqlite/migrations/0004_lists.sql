-- What lists of runs look at, so that their price does not grow with the runs that are not on the page.

-- +goose Up
-- What stands behind run_id is not ordered by: a filter finds it without the row.
DROP INDEX run_state_project;
CREATE INDEX run_state_project ON run_state (tenant_id, project_id, created_at, run_id, environment_id);
CREATE INDEX run_state_environment ON run_state (tenant_id, environment_id, created_at, run_id);
CREATE INDEX run_state_plan ON run_state (tenant_id, plan_id, created_at, run_id, project_id, environment_id);

-- Saves that leave the status as it is do not write these.
CREATE INDEX run_state_tenant_status ON run_state (tenant_id, status, created_at, run_id);
CREATE INDEX run_state_project_status ON run_state (tenant_id, project_id, status, created_at, run_id, environment_id);
CREATE INDEX run_state_environment_status ON run_state (tenant_id, environment_id, status, created_at, run_id);
CREATE INDEX run_state_plan_status ON run_state (tenant_id, plan_id, status, created_at, run_id, project_id, environment_id);

-- The plans that a tenant's projects have run: a part of a planId is looked for here.
CREATE TABLE run_plan (
    tenant_id  TEXT NOT NULL,
    plan_id    TEXT NOT NULL,
    project_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, plan_id, project_id)
) STRICT, WITHOUT ROWID;
INSERT INTO run_plan SELECT DISTINCT tenant_id, plan_id, project_id FROM run;
-- +goose StatementBegin
CREATE TRIGGER run_planned AFTER INSERT ON run BEGIN
    INSERT INTO run_plan (tenant_id, plan_id, project_id) VALUES (new.tenant_id, new.plan_id, new.project_id) ON CONFLICT DO NOTHING;
END;
-- +goose StatementEnd

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
