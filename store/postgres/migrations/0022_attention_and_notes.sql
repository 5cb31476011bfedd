-- Runs that await an operator, the tags and notes of runs, and saved views.

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE run_state, run_status IN ACCESS EXCLUSIVE MODE; -- in the order in which servers lock them

-- When the open retry window of a run ends; NULL while none is open. run_status has the value of the checkpoint, as it
-- has the status.
ALTER TABLE run_state ADD COLUMN awaiting_until timestamptz;
ALTER TABLE run_status ADD COLUMN awaiting_until timestamptz;

-- +goose StatementBegin
CREATE FUNCTION dvt_list_awaiting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    UPDATE run_status s SET awaiting_until = NULL WHERE s.run_id = OLD.run_id;
  ELSE
    UPDATE run_status s SET awaiting_until = NEW.awaiting_until WHERE s.run_id = NEW.run_id;
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- The names sort after run_state_listed, which inserts the row that these update.
CREATE TRIGGER run_state_waits AFTER INSERT ON run_state
  FOR EACH ROW WHEN (NEW.awaiting_until IS NOT NULL) EXECUTE FUNCTION dvt_list_awaiting();
CREATE TRIGGER run_state_waits_moved AFTER UPDATE OF awaiting_until ON run_state
  FOR EACH ROW WHEN (OLD.awaiting_until IS DISTINCT FROM NEW.awaiting_until) EXECUTE FUNCTION dvt_list_awaiting();
CREATE TRIGGER run_state_waits_no_more AFTER DELETE ON run_state
  FOR EACH ROW WHEN (OLD.awaiting_until IS NOT NULL) EXECUTE FUNCTION dvt_list_awaiting();

UPDATE run_state st SET awaiting_until = (st.header ->> 'retryDeadline')::timestamptz
FROM run_status s WHERE s.run_id = st.run_id AND s.status = 'RUNNING'
  AND st.header ->> 'retryDeadline' IS NOT NULL AND st.header ->> 'compensating' IS NULL;

-- The condition names the status because a server of the previous version does not know the column: it may end a run
-- and leave the value.
CREATE INDEX run_status_awaiting ON run_status (tenant_id, created_at, run_id)
  INCLUDE (project_id, environment_id, plan_id, triggered_by) WHERE status = 'RUNNING' AND awaiting_until IS NOT NULL;
CREATE INDEX run_status_awaiting_until ON run_status (tenant_id, awaiting_until, run_id)
  WHERE status = 'RUNNING' AND awaiting_until IS NOT NULL;

-- Tags of runs, beside the facts of each run that lists filter by. They are no facts of the execution: the log does not
-- have them, and the audit says who changed them.
CREATE TABLE run_tag (
  run_id         text COLLATE "C" NOT NULL,
  tag            text COLLATE "C" NOT NULL,
  tenant_id      text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  plan_id        text COLLATE "C" NOT NULL,
  triggered_by   text COLLATE "C" NOT NULL,
  created_at     timestamptz NOT NULL,
  PRIMARY KEY (run_id, tag)
);
CREATE INDEX run_tag_listed ON run_tag (tenant_id, tag, created_at, run_id)
  INCLUDE (project_id, environment_id, plan_id, triggered_by);

CREATE TABLE run_note (
  pos        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (pos > 0),
  run_id     text COLLATE "C" NOT NULL,
  author     text COLLATE "C" NOT NULL,
  body       text NOT NULL,
  request_id text COLLATE "C" NOT NULL,
  at         timestamptz NOT NULL
);
CREATE UNIQUE INDEX run_note_request ON run_note (run_id, author, request_id);
CREATE INDEX run_note_of_run ON run_note (run_id, pos);
CREATE TRIGGER run_note_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON run_note
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON run_note FROM PUBLIC;

-- Views of lists that people saved. A view without a project is its owner's alone.
CREATE TABLE saved_view (
  tenant_id  text COLLATE "C" NOT NULL,
  owner      text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  name       text NOT NULL,
  query      text NOT NULL,
  at         timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, owner, id)
);
CREATE INDEX saved_view_shared ON saved_view (tenant_id, project_id, name, owner, id) WHERE project_id <> '';

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
