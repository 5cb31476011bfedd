-- An erasure of a person replaces the name in rows of insert-only tables (ADR 112).

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- Rows of insert-only tables can be deleted and changed only within a transaction of an erasure, which servers have no
-- right to begin.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dvt_insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP IN ('DELETE', 'UPDATE') AND EXISTS (SELECT FROM erasure WHERE deleting) THEN
    RETURN NULL;
  END IF;
  RAISE EXCEPTION '% is insert-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION dvt_insert_only() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
