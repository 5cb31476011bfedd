-- An erasure of a person replaces the name in rows of insert-only tables (ADR 112). The owner's transaction drops the
-- triggers that protect them and makes them again, so that this schema needs no change.

-- +goose Up

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
