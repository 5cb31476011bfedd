package dbtprofile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dvt-engine/dvt/engine/executor/dbtprofile"
)

func write(t *testing.T, profile, output string) dbtprofile.Source {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"dbt_project.yml": "name: shop\nprofile: " + profile + "\n",
		"profiles.yml": "config: {send_anonymous_usage_stats: false}\nshop:\n  target: \"{{ env_var('STAGE', 'dev') }}\"\n" +
			"  outputs:\n    dev: {" + output + "}\n    other: {type: bigquery}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dbtprofile.Source{Project: dir, Profiles: dir, Env: []string{"PGHOST=db", "PGPORT=6543",
		"DBT_ENV_SECRET_HOST=hidden", "DSN=me:secret@db", "EMPTY="}, Vars: []byte(`{"account": "xy12345"}`)}
}

// The namespaces are those that openlineage-dbt 1.54.0 makes of the same fields.
func TestNamespace_IsThatOfTheReferenceProducer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ output, want string }{
		{`type: duckdb, path: /srv/shop.duckdb`, "duckdb:///srv/shop.duckdb"},
		{`type: duckdb, path: "md:shop?motherduck_token=pa55word"`, "duckdb://md:shop"},
		{`type: postgres, host: db, port: 5432, user: me, password: pa55word`, "postgres://db:5432"},
		{`type: postgres, host: "{{ env_var('PGHOST') }}", port: "{{ env_var('PGPORT') | int }}"`, "postgres://db:6543"},
		{`type: postgres, host: "{{ env_var('NONE', 'here') }}"`, "postgres://here:5432"},
		{`type: snowflake, account: "{{ var('account') }}"`, "snowflake://xy12345.us-west-1.aws"},
		{`type: snowflake, account: xy12345.us-east-1`, "snowflake://xy12345.us-east-1.aws"},
		{`type: snowflake, account: my-org`, "snowflake://my-org"},
		{`type: redshift, host: r, port: 5439`, "redshift://r:5439"},
		{`type: databricks, host: d`, "databricks://d"},
		{`type: bigquery, project: p`, "bigquery"},
		// Nothing is said rather than something that is wrong or secret.
		{`type: postgres, host: "{{ env_var('NONE') }}"`, ""},
		{`type: postgres, host: "{{ env_var('DBT_ENV_SECRET_HOST') }}"`, ""},
		{`type: postgres, host: "{{ env_var('DSN') }}"`, ""},
		{`type: postgres, host: "{{ 'a' ~ 'b' }}"`, ""},
		{`type: unknown, host: h`, ""},
		{`type: postgres`, ""},
	} {
		if got := dbtprofile.Namespace(write(t, "shop", c.output)); got != c.want {
			t.Errorf("{%s} has the namespace %q, want %q", c.output, got, c.want)
		}
	}
}

func TestNamespace_IsOfTheTargetThatDBTTakes(t *testing.T) {
	t.Parallel()
	s := write(t, "shop", "type: duckdb, path: a")
	if s.Target = "other"; dbtprofile.Namespace(s) != "bigquery" {
		t.Errorf("with --target other it is %q, want bigquery", dbtprofile.Namespace(s))
	}
	s.Target, s.Env = "", append(s.Env, "DBT_TARGET=other")
	if got := dbtprofile.Namespace(s); got != "bigquery" {
		t.Errorf("with DBT_TARGET=other it is %q, want bigquery", got)
	}
	s.Env = []string{"STAGE=none"}
	if got := dbtprofile.Namespace(s); got != "" {
		t.Errorf("of a target that is not there it is %q, want nothing", got)
	}
	if got := dbtprofile.Namespace(write(t, "missing", "type: bigquery")); got != "" {
		t.Errorf("of a profile that is not there it is %q, want nothing", got)
	}
	if got := dbtprofile.Namespace(dbtprofile.Source{Project: t.TempDir(), Profiles: t.TempDir()}); got != "" {
		t.Errorf("without files it is %q, want nothing", got)
	}
}
