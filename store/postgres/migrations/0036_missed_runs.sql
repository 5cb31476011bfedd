-- How many runs were deleted before a destination took their messages (ADR 105).

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE destination IN ACCESS EXCLUSIVE MODE;

ALTER TABLE destination ADD COLUMN missed_runs bigint NOT NULL DEFAULT 0;

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
