-- A synthetic next version: the fixture of tests of upgrades, in place of a release that does not exist yet. Lists of runs
-- get a column that old rows have to be filled with, and indexes that are built before the migration.

-- +goose Up
SET LOCAL lock_timeout = '1s';
LOCK TABLE run, run_status IN SHARE MODE; -- in the order in which servers take them

CREATE INDEX IF NOT EXISTS run_of_label ON run (tenant_id, request_id, created_at, run_id);
CREATE INDEX IF NOT EXISTS run_status_of_label ON run_status (tenant_id, label, created_at, run_id);

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
