-- A synthetic next version for the upgrade tests, because no next release exists yet. It adds a column to run_status
-- whose old rows must be filled, and indexes that are built ahead of the migration.

-- +goose Up
SET LOCAL lock_timeout = '1s';
LOCK TABLE run, run_status IN SHARE MODE; -- in the order in which servers lock them

CREATE INDEX IF NOT EXISTS run_of_label ON run (tenant_id, request_id, created_at, run_id);
CREATE INDEX IF NOT EXISTS run_status_of_label ON run_status (tenant_id, label, created_at, run_id);

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
