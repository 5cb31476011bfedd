-- Finds the reruns of a run, so that a bulk leaves out runs that were rerun already (ADR 89).

-- +goose Up
CREATE INDEX run_parent ON run (parent_run_id, run_id) WHERE parent_run_id <> '';

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
