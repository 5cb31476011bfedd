-- Keys that seal the personal fields of audit rows (ADR 106), and erasures of tenants and of data subjects (ADR 107).

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- A key stays when it is destroyed, without its secret, so that readers can say that a subject was erased. Servers can
-- neither change nor delete a row.
CREATE TABLE subject_key (
  id        text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  lookup    text COLLATE "C" NOT NULL, -- keyed hash of tenant and actor
  name      text NOT NULL,             -- of the actor, sealed by the key
  wrapped   text NOT NULL,             -- the key, sealed by a key of the installation; '' once it is destroyed
  made_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  erased_at timestamptz
);
CREATE INDEX subject_key_lookup ON subject_key (lookup);
CREATE INDEX subject_key_of_tenant ON subject_key (tenant_id, id);
CREATE INDEX subject_key_erased ON subject_key (erased_at) WHERE erased_at IS NOT NULL;

-- Requests to erase a tenant or a subject, and what became of them. Servers write the requests and the decisions about
-- them; only the owner carries them out. A finished erasure is a tombstone: it names nobody.
CREATE TABLE erasure (
  pos          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id           text COLLATE "C" NOT NULL UNIQUE,
  kind         text COLLATE "C" NOT NULL, -- TENANT or SUBJECT
  tenant_id    text COLLATE "C" NOT NULL,
  subject      text NOT NULL DEFAULT '',
  reason       text NOT NULL DEFAULT '',
  requested_by text NOT NULL,
  requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at   timestamptz NOT NULL,
  confirmed_by text NOT NULL DEFAULT '',
  confirmed_at timestamptz,
  cancelled_by text NOT NULL DEFAULT '',
  cancelled_at timestamptz,
  started_at   timestamptz,
  phase        text COLLATE "C" NOT NULL DEFAULT '',
  position     text COLLATE "C" NOT NULL DEFAULT '', -- within the phase
  counts       text NOT NULL DEFAULT '{}',           -- JSON: what was erased, by place
  deleting     boolean NOT NULL DEFAULT false,       -- true only within a transaction that erases
  finished_at  timestamptz,
  certificate  text NOT NULL DEFAULT ''
);
CREATE INDEX erasure_of_tenant ON erasure (tenant_id, pos);
CREATE INDEX erasure_open ON erasure (pos) WHERE finished_at IS NULL AND cancelled_at IS NULL;

-- Rows of insert-only tables can be deleted only within a transaction of an erasure, which servers have no right to
-- begin. Nobody can change them.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dvt_insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM erasure WHERE deleting) THEN
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
