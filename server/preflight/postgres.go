package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/server/connect"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

const (
	oldestPostgres = 130000
	// skewNoted is the difference of the clocks at which a process warns, and skewRefused the one at which signatures,
	// certificates and tokens that have just been made are refused.
	skewNoted   = 5 * time.Second
	skewRefused = time.Minute
	// mostNamed bounds how many missing rights a finding names.
	mostNamed = 5
)

func (t *target) postgres(ctx context.Context, l *list) {
	if t.Store == "" {
		return // a finding of the settings
	}
	if strings.HasPrefix(t.Store, "sqlite:") {
		l.note("kind", "the store is a SQLite file", "one process can use it; an installation of several needs PostgreSQL",
			"set store to postgres://ROLE@HOST/NAME?sslmode=verify-full")
		return
	}
	options, err := connect.Store(t.Config, t.log)
	if err != nil {
		l.missing("password", err.Error(), "the process cannot sign in", "write the password of the role into that file")
		return
	}
	f, err := postgres.Inspect(ctx, t.Store, options.Password, t.AppRole)
	if err != nil {
		l.missing("reachable", "the connection failed: "+err.Error(), "every process but data workers needs the store",
			"check the address, the role, the password and sslmode in store; try `psql ADDRESS -c 'SELECT 1'` with that address")
		return
	}
	l.ok("reachable", "connected as the role %s", f.Role)
	t.postgresServer(l, f)
	t.postgresConnections(l, f)
	t.postgresClock(l, f)
	t.postgresSchema(ctx, l, f, options.Password)
}

func (t *target) postgresServer(l *list, f postgres.Facts) {
	if f.Number < oldestPostgres {
		l.missing("version", "PostgreSQL "+f.Version, "dvt needs PostgreSQL 13 or later", "upgrade the server")
	} else {
		l.ok("version", "PostgreSQL %s", f.Version)
	}
	if f.TLS {
		l.ok("TLS", "the connection is encrypted")
	} else {
		l.note("TLS", "the connection is in plain text", "others on the way could read and change events",
			"add sslmode=verify-full to store unless the server is on this machine")
	}
	if f.ReadOnly {
		l.missing("writable", "the database accepts no writes: it is a standby, or set to read-only",
			"every event is written there", "connect to the primary, for example with target_session_attrs=read-write")
	}
	if f.Encoding != "UTF8" {
		l.missing("encoding", "the encoding of the database is "+f.Encoding, "names and messages are UTF-8",
			"CREATE DATABASE dvt OWNER owner TEMPLATE template0 ENCODING 'UTF8'")
	}
	if !f.PLpgSQL {
		l.missing("extension", "the language plpgsql is missing", "functions of the schema are written in it",
			"CREATE EXTENSION plpgsql")
	} else {
		l.ok("extensions", "plpgsql is there; dvt needs no other")
	}
	if f.Isolation != "read committed" {
		l.missing("isolation level", "default_transaction_isolation is "+f.Isolation,
			"single statements would fail with serialization errors under load",
			fmt.Sprintf("ALTER ROLE %q SET default_transaction_isolation = 'read committed'", f.Role))
	} else {
		l.ok("isolation level", "read committed")
	}
	if f.Commits == "off" {
		l.missing("durability", "synchronous_commit is off", "a crash of the server may lose acknowledged events",
			fmt.Sprintf("ALTER ROLE %q SET synchronous_commit = 'on'", f.Role))
	}
}

func (t *target) postgresConnections(l *list, f postgres.Facts) {
	need, free := t.peerConnections(), f.MaxConns-f.Reserved
	if f.RoleConns >= 0 {
		free = min(free, f.RoleConns)
	}
	what := fmt.Sprintf("%d connections for %d servers and control workers with up to %d each; the server gives %d",
		need, t.Peers, postgres.DefaultMaxConns, free)
	if need > free {
		l.missing("connections", what, "processes that get no connection answer STORE_UNAVAILABLE",
			fmt.Sprintf("ALTER SYSTEM SET max_connections = %d and restart the server, raise the CONNECTION LIMIT of the "+
				"role, or put a pooler in between; --peers says how many processes there are", need+f.Reserved))
		return
	}
	l.ok("connections", "%s", what)
}

func (t *target) postgresClock(l *list, f postgres.Facts) {
	skew := f.Skew.Round(time.Millisecond)
	found := "the clock of the database differs from this machine's by " + plan.DurationWords(skew.Abs())
	remedy := "synchronise both machines, for example with `chronyc makestep`"
	switch {
	case skew.Abs() >= skewRefused:
		l.missing("clock", found, "certificates, tokens of issuers and signed messages would be refused", remedy)
	case skew.Abs() >= skewNoted:
		l.note("clock", found, "dvt goes by the clock of the database and warns of such a difference", remedy)
	default:
		l.ok("clock", "%s", found)
	}
}

// postgresSchema judges the schema and the rights of the role, which are those of an owner for a migration and those of
// a server for the rest.
func (t *target) postgresSchema(ctx context.Context, l *list, f postgres.Facts, password func() string) {
	if f.Schema == "" {
		l.missing("schema", "the role sees no schema to make tables in", "the tables of dvt live there",
			fmt.Sprintf("GRANT USAGE ON SCHEMA public TO %q, and CREATE to the role that migrates", f.Role))
		return
	}
	command := "dvt migrate --store 'postgres://OWNER@HOST/NAME' --app-role " + f.Role
	s, err := postgres.Migration{Logger: t.log, Password: password}.Schema(ctx, t.Store)
	pending := len(s.Pending())
	switch {
	case errors.Is(err, store.ErrSchema) || err == nil && s.Database == 0 && t.Process != Migrate:
		l.missing("schema", "the database is empty", "a process does not create tables", command)
		return
	case err != nil:
		l.missing("schema", "the schema cannot be read: "+err.Error(), "a process checks it when it starts", command)
		return
	case t.Process == Migrate:
		l.ok("schema", "the schema is %d; this program brings it to %d", s.Database, s.Program)
		t.postgresOwner(l, f)
		return
	case pending > 0:
		l.missing("schema", fmt.Sprintf("the schema is %d and this program needs %d", s.Database, s.Program),
			"a process does not start on an older schema", command)
	default:
		l.ok("schema", "the schema is %d; this program needs %d", s.Database, s.Program)
	}
	if n := len(f.Missing); n > 0 {
		named := strings.Join(f.Missing[:min(n, mostNamed)], ", ")
		if n > mostNamed {
			named += fmt.Sprintf(" and %d more", n-mostNamed)
		}
		l.missing("rights", fmt.Sprintf("the role %s lacks %s", f.Role, named),
			"calls that need them fail with STORE_UNAVAILABLE", command)
	} else {
		l.ok("rights", "the role %s has every right that a process needs", f.Role)
	}
	if f.MayChange || f.Superuser {
		l.missing("least rights", fmt.Sprintf("the role %s could change events and audit rows", f.Role),
			"the log and the audit are proof only while no process can change them",
			"CREATE ROLE dvt LOGIN PASSWORD '…'; then dvt migrate --app-role dvt as the owner, and name that role in store")
	}
}

// postgresOwner judges the role that migrates.
func (t *target) postgresOwner(l *list, f postgres.Facts) {
	if !f.Creates {
		l.missing("rights", fmt.Sprintf("the role %s may not create tables in the schema %s", f.Role, f.Schema),
			"migrations create tables", fmt.Sprintf("GRANT CREATE, USAGE ON SCHEMA %s TO %q, or ALTER DATABASE … OWNER TO %[2]q",
				f.Schema, f.Role))
	} else {
		l.ok("rights", "the role %s may create tables", f.Role)
	}
	switch {
	case t.AppRole == "":
		l.note("app-role", "the setting app-role is missing", "servers then need the rights of the owner",
			"CREATE ROLE dvt LOGIN PASSWORD '…', and give --app-role dvt")
	case f.AppRole != "":
		l.missing("app-role", f.AppRole, "servers connect as this role", "CREATE ROLE "+t.AppRole+" LOGIN PASSWORD '…'")
	default:
		l.ok("app-role", "the role %s exists and is not the owner", t.AppRole)
	}
}
