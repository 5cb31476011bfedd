package preflight_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx of database/sql
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/sandbox"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/preflight"
	"github.com/dvt-engine/dvt/store/postgres"
)

// TestMain lets this binary be the child process that the sandbox starts.
func TestMain(m *testing.M) {
	sandbox.Main()
	os.Exit(m.Run())
}

// secretText stands in every setting that holds a secret; no report may contain it.
const secretText = "hunter2-secret"

const appRole = "preflight_app"

var migrated = testserver.Template{Prepare: func(dsn string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("CREATE ROLE " + appRole + " LOGIN"); err != nil {
		return err
	}
	return postgres.Migration{AppRole: appRole}.Run(context.Background(), dsn)
}}

// load returns the settings that flags and the file of settings give.
func load(t *testing.T, settings string, flags map[string]string) config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dvt.yaml")
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	f := pflag.NewFlagSet("preflight", pflag.ContinueOnError)
	f.String("config", path, "")
	for name := range flags {
		config.Flags(f, name)
	}
	for name, value := range flags {
		if err := f.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(f, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serverFlags are the settings of a server on a target where nothing is missing.
func serverFlags(t *testing.T) map[string]string {
	t.Helper()
	temporal := testserver.Temporal(t)
	return map[string]string{
		"store": asRole(t, migrated.Postgres(t), appRole), "redis": "redis://" + testserver.Redis(t).Addr + "/0",
		"temporal": temporal.Addr, "temporal-namespace": temporal.Namespace,
		"artifacts": "file://" + t.TempDir(), "listen": testserver.FreeAddress(t),
	}
}

const serverSettings = "ticket-keys: ['k1:aHVudGVyMi1zZWNyZXQtaHVudGVyMi1zZWNyZXQtMzI=']\n"

// durable switches on the commits that a target must have and that servers of tests leave out.
const durable = "&synchronous_commit=on"

// asRole returns dsn for another role, with durable commits.
func asRole(t *testing.T, dsn, role string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String() + durable
}

func check(t *testing.T, c config.Config, p preflight.Process) preflight.Report {
	t.Helper()
	r := preflight.Run(t.Context(), c, preflight.Options{Process: p, Peers: 2, Timeout: 20 * time.Second})
	if text := fmt.Sprintf("%+v", r); strings.Contains(text, secretText) || strings.Contains(text, "aHVudGVy") {
		t.Errorf("the report contains a secret:\n%s", text)
	}
	for _, f := range r.Findings {
		if f.State != preflight.OK && (f.Why == "" || f.Remedy == "" || f.Found == "") {
			t.Errorf("the finding %+v lacks what was found, why it matters or what mends it", f)
		}
	}
	return r
}

// missing returns the findings with the state MISSING, as "component check".
func missing(r preflight.Report) (out []string) {
	for _, f := range r.Findings {
		if f.State == preflight.Missing {
			out = append(out, f.Component+" "+f.Check)
		}
	}
	return out
}

// expectMissing fails unless exactly the findings of want are missing, and the text of the first one contains says.
func expectMissing(t *testing.T, r preflight.Report, says string, want ...string) {
	t.Helper()
	if got := missing(r); !slices.Equal(got, want) {
		t.Errorf("missing are %q, want %q:\n%s", got, want, text(r))
	}
	if !strings.Contains(text(r), says) {
		t.Errorf("no finding says %q:\n%s", says, text(r))
	}
	if r.Missing != len(want) {
		t.Errorf("the report counts %d missing, want %d", r.Missing, len(want))
	}
}

func text(r preflight.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s %s: %s | %s | %s\n", f.State, f.Component, f.Check, f.Found, f.Why, f.Remedy)
	}
	return b.String()
}

func TestRun_NothingIsMissingOnAHealthyTarget(t *testing.T) {
	t.Parallel()
	flags := serverFlags(t)
	c := load(t, serverSettings, flags)
	r := check(t, c, preflight.Server)
	// the development server of Temporal keeps closed executions for a day
	expectMissing(t, r, "closed executions are kept for 24 h", "Temporal retention")
	left, err := filepath.Glob(strings.TrimPrefix(flags["artifacts"], "file://") + "/*/*")
	if err != nil || len(left) > 0 {
		t.Errorf("the bucket holds %v (%v) after the report, want nothing", left, err)
	}
	for _, ok := range []string{"OK PostgreSQL rights", "OK Redis rights", "OK Bucket artifacts", "OK Ports listen",
		"OK Temporal search attributes", "OK PostgreSQL isolation level", "OK PostgreSQL clock"} {
		if !strings.Contains(text(r), ok) {
			t.Errorf("no finding %q:\n%s", ok, text(r))
		}
	}
}

// Every part is broken at once, and every finding comes at once.
func TestRun_NamesEveryFindingAtOnce(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	nobody := testserver.FreeAddress(t)
	r := check(t, load(t, "", map[string]string{
		"store": "postgres://dvt:" + secretText + "@" + nobody + "/dvt?sslmode=disable",
		"redis": "redis://dvt:" + secretText + "@" + nobody + "/0", "temporal": nobody,
		"artifacts": "file://" + filepath.Join(t.TempDir(), "none"), "listen": taken.Addr().String(),
	}), preflight.Server)
	expectMissing(t, r, "make a secret with `openssl rand -base64 32`", "Settings ticket-keys", "PostgreSQL reachable",
		"Redis reachable", "Bucket artifacts", "Temporal reachable", "Ports listen")
	if says := "the address " + taken.Addr().String() + " is taken"; !strings.Contains(text(r), says) {
		t.Errorf("no finding says %q:\n%s", says, text(r))
	}
}

func TestRun_NamesWhatPostgreSQLLacks(t *testing.T) {
	t.Parallel()
	owner := migrated.Postgres(t)
	for name, c := range map[string]struct {
		dsn    func(t *testing.T) string
		broken string // SQL that the owner runs before
		says   string
		want   []string
	}{
		"an empty database": {dsn: func(t *testing.T) string { return asRole(t, testserver.Postgres(t), appRole) },
			says: "dvt migrate --store", want: []string{"PostgreSQL schema"}},
		"a right": {broken: "REVOKE INSERT ON event FROM " + appRole,
			says: "lacks INSERT on event", want: []string{"PostgreSQL rights"}},
		"a right on a column": {broken: "REVOKE UPDATE ON approval FROM " + appRole,
			says: "lacks UPDATE (open) on approval", want: []string{"PostgreSQL rights"}},
		"the isolation level": {
			dsn:  func(*testing.T) string { return owner + durable + "&default_transaction_isolation=serializable" },
			says: "default_transaction_isolation is serializable",
			want: []string{"PostgreSQL isolation level", "PostgreSQL least rights"}},
		"durability": {dsn: func(t *testing.T) string { return strings.TrimSuffix(asRole(t, owner, appRole), durable) },
			says: "synchronous_commit is off", want: []string{"PostgreSQL durability"}},
		"the role of the owner": {dsn: func(*testing.T) string { return owner + durable },
			says: "could change events and audit rows", want: []string{"PostgreSQL least rights"}},
		"an older schema": {broken: "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM " +
			"goose_db_version)", says: "this program needs", want: []string{"PostgreSQL schema"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := serverFlags(t)
			if c.broken != "" {
				own := migrated.Postgres(t)
				execSQL(t, own, c.broken)
				flags["store"] = asRole(t, own, appRole)
			} else {
				flags["store"] = c.dsn(t)
			}
			expectMissing(t, check(t, load(t, serverSettings, flags), preflight.Server), c.says,
				append(c.want, "Temporal retention")...)
		})
	}
}

func TestRun_CountsTheConnectionsOfAllProcesses(t *testing.T) {
	t.Parallel()
	c := load(t, serverSettings, serverFlags(t))
	r := preflight.Run(t.Context(), c, preflight.Options{Process: preflight.Server, Peers: 1000})
	expectMissing(t, r, "16000 connections for 1000 servers and control workers", "PostgreSQL connections",
		"Temporal retention")
}

func TestRun_NamesWhatAMigrationLacks(t *testing.T) {
	t.Parallel()
	migrated.Postgres(t) // makes appRole
	c := load(t, "", map[string]string{"store": testserver.Postgres(t) + durable, "app-role": "no_such_role"})
	expectMissing(t, check(t, c, preflight.Migrate), "CREATE ROLE no_such_role", "PostgreSQL app-role")
	c = load(t, "", map[string]string{"store": asRole(t, testserver.Postgres(t), appRole), "app-role": appRole})
	expectMissing(t, check(t, c, preflight.Migrate), "may not create tables", "PostgreSQL rights", "PostgreSQL app-role")
}

func TestRun_NamesTheCommandThatRedisRefuses(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	for name, c := range map[string]struct{ rights, says string }{
		"publish":   {"&dvt:* -publish", "PUBLISH failed: NOPERM"},
		"subscribe": {"&dvt:* -subscribe", "SUBSCRIBE failed"},
		"channels":  {"&other:*", "SUBSCRIBE failed: on the channels dvt:*"},
	} {
		sendRedis(t, redis.Addr, "ACL SETUSER "+name+" reset on >"+secretText+" resetchannels +@all "+c.rights)
		flags := serverFlags(t)
		flags["redis"] = "redis://" + name + ":" + secretText + "@" + redis.Addr + "/0"
		r := check(t, load(t, serverSettings, flags), preflight.Server)
		if got := missing(r); len(got) == 0 || got[0] != "Redis rights" || !strings.Contains(text(r), c.says) {
			t.Errorf("%s: missing are %q, want Redis rights with %q:\n%s", name, got, c.says, text(r))
		}
	}
	sendRedis(t, redis.Addr, "ACL SETUSER least reset on >"+secretText+" resetkeys resetchannels &dvt:* -@all +ping "+
		"+hello +auth +client +publish +subscribe +unsubscribe")
	flags := serverFlags(t)
	flags["redis"] = "redis://least:" + secretText + "@" + redis.Addr + "/0"
	expectMissing(t, check(t, load(t, serverSettings, flags), preflight.Server), "OK Redis rights", "Temporal retention")
}

func TestRun_NamesWhatTheNamespaceLacks(t *testing.T) {
	t.Parallel()
	server := testserver.TemporalAlone(t)
	operator := func(args ...string) {
		t.Helper()
		args = append(append([]string{"operator"}, args...), "--address", server.Addr)
		if out, err := exec.CommandContext(t.Context(), testserver.TemporalCLI(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("temporal %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	flags := serverFlags(t)
	flags["temporal"], flags["temporal-namespace"] = server.Addr, "elsewhere"
	expectMissing(t, check(t, load(t, serverSettings, flags), preflight.Server),
		"temporal operator namespace create --namespace elsewhere", "Temporal namespace")
	operator("namespace", "update", "--namespace", server.Namespace, "--retention", "30d")
	flags["temporal-namespace"] = server.Namespace
	expectMissing(t, check(t, load(t, serverSettings, flags), preflight.Server), "30 days")
	operator("search-attribute", "remove", "--namespace", server.Namespace, "--name", "DvtPlanId", "--yes")
	expectMissing(t, check(t, load(t, serverSettings, flags), preflight.Server), "for a in DvtPlanId; do",
		"Temporal search attributes")
	operator("search-attribute", "create", "--namespace", server.Namespace, "--name", "DvtPlanId", "--type", "Text")
	expectMissing(t, check(t, load(t, serverSettings, flags), preflight.Server),
		"attribute DvtPlanId is Text, not Keyword", "Temporal search attribute DvtPlanId")
}

func TestRun_NamesWhatTheBucketRefuses(t *testing.T) {
	t.Parallel()
	bucket := testserver.S3(t)
	good := bucket.URL(bucket.Addr)
	flags := serverFlags(t)
	flags["artifacts"] = strings.Replace(good, "s3://dvt", "s3://other", 1)
	expectMissing(t, check(t, load(t, serverSettings, flags), preflight.Server),
		"allow s3:ListBucket on arn:aws:s3:::other",
		"Bucket artifacts", "Bucket artifacts", "Temporal retention")
	flags["artifacts"] = good
	expectMissing(t, check(t, load(t, serverSettings, flags), preflight.Server), "OK Bucket artifacts: write, read",
		"Temporal retention")
}

func TestRun_NamesFilesThatOthersReadAndCertificatesThatEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := testserver.NewAuthority(t, "authority")
	other, pair := authority.Issue(t, "other", "localhost"), authority.Issue(t, "server", "localhost")
	flags := serverFlags(t)
	flags["subject-keys-file"] = file("subjects", "k1:aHVudGVyMi1zZWNyZXQtaHVudGVyMi1zZWNyZXQtMzI=", 0o644)
	flags["listen-tls-cert"] = file("cert.pem", string(pair.Cert), 0o600)
	flags["listen-tls-key"] = file("key.pem", string(other.Key), 0o600)
	flags["listen-tls-client-ca"] = file("ca.pem", "no certificate", 0o600)
	r := check(t, load(t, serverSettings, flags), preflight.Server)
	expectMissing(t, r, "chmod o-rwx "+flags["subject-keys-file"], "Files "+flags["subject-keys-file"],
		"Files "+flags["listen-tls-client-ca"], "Files "+flags["listen-tls-cert"], "Temporal retention")
}

func TestRun_ADataWorkerNeedsItsJournalAndItsSandbox(t *testing.T) {
	t.Parallel()
	denies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(denies.Close)
	temporal := testserver.Temporal(t)
	secrets := filepath.Join(t.TempDir(), "secrets.yaml")
	provider := "providers: [{name: local, kind: file, file: " + secrets + ".none}]\n"
	if err := os.WriteFile(secrets, []byte(provider), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{"temporal": temporal.Addr, "temporal-namespace": temporal.Namespace,
		"queues": "tq-data-dev", "server": denies.URL, "secrets": secrets}
	c := load(t, "worker-token: "+secretText+"\n", flags)
	if got := preflight.ProcessOf(&c); got != preflight.DataWorker {
		t.Errorf("the settings are for a %s, want a data worker", got)
	}
	r := check(t, c, preflight.DataWorker)
	for _, want := range []string{"Temporal retention", "Journal token", "Secrets local"} {
		if !slices.Contains(missing(r), want) {
			t.Errorf("%q is not missing:\n%s", want, text(r))
		}
	}
	if !strings.Contains(text(r), "Sandbox runtime: process enforces") {
		t.Errorf("the report says nothing about the sandbox:\n%s", text(r))
	}
	if strings.Contains(text(r), "PostgreSQL") || strings.Contains(text(r), "Redis") {
		t.Errorf("a data worker needs no store and no bus:\n%s", text(r))
	}
}
