-- Changes of alerts in the order of commits, and what became of messages to other systems (ADR 91).

-- +goose Up
SET LOCAL lock_timeout = '3s';

CREATE TABLE alert_change (
  n     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  pos   bigint NOT NULL, -- of the alert
  kind  text NOT NULL,
  at    timestamptz NOT NULL,
  level text NOT NULL,
  note  text NOT NULL,
  count bigint NOT NULL
);
CREATE INDEX alert_change_at ON alert_change (at);

-- A trigger, so that programs of the version before, which run beside this one for a while, lose no change. The lock of
-- the only row of alert_rev lasts until the commit, so that numbers grow in the order of commits.
-- +goose StatementBegin
CREATE FUNCTION dvt_alert_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_kind text;
BEGIN
  IF TG_OP = 'INSERT' THEN
    v_kind := 'OPENED';
  ELSIF OLD.resolved_at IS DISTINCT FROM NEW.resolved_at THEN
    v_kind := 'RESOLVED';
  ELSIF OLD.acknowledged_at IS DISTINCT FROM NEW.acknowledged_at THEN
    v_kind := 'ACKNOWLEDGED';
  ELSIF OLD.level IS DISTINCT FROM NEW.level THEN
    v_kind := 'LEVEL';
  ELSE
    RETURN NULL;
  END IF;
  PERFORM FROM alert_rev FOR UPDATE;
  INSERT INTO alert_change (pos, kind, at, level, note, count)
  VALUES (NEW.pos, v_kind, clock_timestamp(), NEW.level, NEW.note, NEW.count);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER alert_state_changed AFTER INSERT OR UPDATE ON alert_state
  FOR EACH ROW EXECUTE FUNCTION dvt_alert_changed();

CREATE TABLE destination (
  name          text COLLATE "C" PRIMARY KEY,
  disabled_for  text NOT NULL DEFAULT '',
  disabled_why  text NOT NULL DEFAULT '',
  failing_since timestamptz,
  last_sent     timestamptz,
  last_error    text NOT NULL DEFAULT '',
  sent          bigint NOT NULL DEFAULT 0,
  failed        bigint NOT NULL DEFAULT 0,
  dead          bigint NOT NULL DEFAULT 0,
  dropped       bigint NOT NULL DEFAULT 0
);

CREATE TABLE destination_dead (
  n          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  tenant_id  text COLLATE "C" NOT NULL,
  run_id     text COLLATE "C" NOT NULL,
  tries      integer NOT NULL,
  error      text NOT NULL,
  message    text NOT NULL,
  at         timestamptz NOT NULL,
  UNIQUE (name, message_id)
);
CREATE INDEX destination_dead_of_name ON destination_dead (name, n);

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
