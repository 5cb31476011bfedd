-- How many runs were deleted before a destination took their messages (ADR 105).

-- +goose Up

ALTER TABLE destination ADD COLUMN missed_runs INTEGER NOT NULL DEFAULT 0;

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
