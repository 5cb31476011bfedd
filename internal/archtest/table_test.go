package archtest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/internal/archtest"
	"github.com/dvt-engine/dvt/internal/checkout"
)

// everything stands for all packages but the commands.
const everything = "*"

// imports is the architecture: what each package may import of the product's own. Tests are free. Change it together
// with docs/architecture.md, and say why.
var imports = map[string][]string{
	".":    {}, // the public schema, embedded
	"plan": {},
	"run":  {"plan"},
	// Pure, like the fold whose result it reads.
	"run/doctor": {"run", "plan"},
	// Which nodes of dbt a retry runs: the use cases, the Journal and the worker agree by calling the same functions.
	"run/nodeset": {"run"},
	// So is the arithmetic of durations and forecasts.
	"run/forecast": {"run"},
	// Servers derive traces from the store's log, and commands from the log that the API returns.
	"run/trace": {"run"},
	// So is the lineage. Servers also read the manifests of dbt for it.
	"run/lineage": {"run", "run/nodeset"},

	// Messages to other systems: the vocabulary and the port of senders, and a sender for each kind of destination, behind
	// the guard of outgoing connections.
	// plan has the words of durations.
	"destination":      {"plan"},
	"destination/send": {"destination", "egress", "plan", "run/lineage"},
	// The one package that knows OpenTelemetry: servers send traces, and a command writes them to a file.
	"otlp": {"run/trace"},
	// Spans of requests and calls. Stores and engines get functions and do not know of it.
	"otlp/spans": {"otlp", "run/trace"},

	"store":           {"run", "plan"},
	"store/storetest": {"store", "run", "plan", "internal/testtime", "internal/testserver"},
	// Keys of actors seal audit rows; one form for both adapters.
	"store/subject": {"store", "run"},
	// Erasures delete what servers cannot; one form for both databases.
	"store/owner":    {"store", "run"},
	"store/coalesce": {"store", "internal/contain"},
	// It erases what all the others keep, with the rights of the store's owner.
	"erasure": {"store", "store/owner", "store/subject", "storeadmin/archive", "artifact", "engine", "run"},
	// It reads everything of a tenant into files; the document of an audit record is that of destinations, too.
	"store/auditdoc": {"store", "run"},
	"export":         {"store", "store/auditdoc", "store/owner", "store/subject", "storeadmin/archive", "artifact"},
	// One arithmetic of quotas for both adapters.
	"store/admission": {"store", "run"},
	// owner lists the tables that an erasure empties; adapters count their rows for a preview.
	"store/postgres": {"store", "store/admission", "store/epoch", "store/owner", "run", "plan"},
	"store/sqlite":   {"store", "store/admission", "store/owner", "run", "plan"},
	// Which history a database or a task belongs to: adapters, the Journal and commands compare epochs.
	"store/epoch": {"store"},
	// Side effects of commits, as decorators of a store.
	"store/decorate": {"store", "run"},
	"store/feed":     {"store", "run", "internal/sizedlru"},
	// A client of the store and, for repairs, of the engine's history: it stands above both.
	"storeadmin": {"store", "engine", "run", "plan"},
	// The archive of a run is an export of it, in a bucket behind a port.
	"storeadmin/archive": {"store/auditdoc", "store", "storeadmin", "run", "internal/dutycycle", "internal/sizedlru"},

	// The port uses store's types, so that they are not copied.
	"engine":        {"store", "run", "plan"},
	"engine/interp": {"engine", "store", "run", "plan"},
	"engine/ticket": {"run"},
	// Which namespace a run belongs into, as the settings say; pure.
	"engine/namespaces": {"plan", "run"},
	"engine/remote":     {"engine", "store", "run", "plan"},
	// Plans name the addresses that executors and the fetch of plans call: one guard judges both.
	"egress":  {},
	"sandbox": {"plan"},
	"engine/executor": {"engine", "engine/executor/dbtlog", "engine/executor/dbtprofile",
		"store", "run", "run/nodeset", "run/trace", "plan",
		"artifact", "egress",
		"sandbox", "internal/errorline", "internal/secretvalue", "secret", "secret/mask"},
	// What dbt prints, as one contract for its versions; pure.
	"engine/executor/dbtlog": {"run", "run/nodeset"},
	// The address of the warehouse, and nothing else of a profile.
	"engine/executor/dbtprofile": {},
	// Workers read the secrets of steps. Providers stand behind a port.
	"secret":           {"plan"},
	"secret/mask":      {},
	"secret/transport": {"secret"},
	"secret/file":      {"plan", "secret"},
	"secret/vault":     {"secret", "secret/transport"},
	"secret/aws":       {"plan", "secret", "secret/transport"},
	"secret/gcp":       {"plan", "secret", "secret/transport"},
	"secret/azure":     {"plan", "secret", "secret/transport"},
	"secret/meter":     {"secret"},
	"secret/providers": {"secret", "secret/file", "secret/vault", "secret/aws", "secret/gcp", "secret/azure"},
	"engine/temporal":  {"engine", "engine/interp", "engine/executor", "engine/ticket", "store", "run", "plan"},
	// The mock's log is decided by the authority that every store asks, and its retries by the policy of workers.
	"engine/mock": {"engine", "engine/interp", "engine/executor", "engine/ticket", "store", "store/authority", "run",
		"plan"},
	// The suite drives each engine through the use cases.
	"engine/enginetest": {"control", "control/runs", "store", "authz", "run", "internal/testtime"},

	"projector": {"store", "run", "plan", "live", "internal/sizedlru", "internal/contain"},
	// The exporter of traces is a consumer of the feed, beside the projector.
	"tracer": {"store", "store/feed", "otlp", "run", "run/trace", "internal/sizedlru"},
	// So is the delivery to other systems. Senders stand behind a port.
	"notifier": {"store", "store/auditdoc", "store/feed", "run", "run/lineage", "plan", "destination", "internal/contain",
		"internal/sizedlru"},
	"live":          {"store", "run", "plan", "authz", "internal/contain"},
	"live/redisbus": {"live", "run"},
	"authz":         {"run", "plan"},        // a policy bounds the sandboxes that plans ask for
	"authz/oidc":    {"authz"},              // it asks issuers, which a decision never does
	"artifact":      {"internal/errorline"}, // for logs whose failures name no line
	// The suite that every kind of bucket passes.
	"artifact/artifacttest": {"artifact"},
	// The use cases stand on one kernel: rights, errors, alerts and background work.
	"control": {"plan", "run", "store", "store/subject", "engine", "live", "authz", "artifact",
		"internal/contain"}, // its errors
	// Modes and quotas are settings, which access reads and puts in force.
	"control/access": {"control", "plan", "run", "store", "engine", "authz"},
	"control/admission": {"control", "control/access", "plan", "run", "store", "store/admission", "engine", "live",
		"authz"},
	"control/health": {"control", "control/admission", "plan", "run", "store", "engine", "live", "authz", "artifact"},
	// The nodes of steps, which reads show and retries choose.
	"control/nodes": {"control", "plan", "run", "run/nodeset", "store", "artifact", "internal/sizedlru"},
	"control/runs": {"control", "control/admission", "control/nodes", "plan", "run", "run/nodeset", "store",
		"engine", "engine/interp", "authz",
		"artifact",
		"internal/secretvalue", "internal/sizedlru"},
	// One history of durations serves medians, forecasts and the rule for overdue runs.
	"control/durations": {"control", "run", "run/forecast", "store"},
	"control/reads": {"control", "control/durations", "control/nodes", "control/runs", "plan", "run", "run/forecast",
		"store", "engine", "live", "authz", "artifact", "internal/secretvalue", "internal/sizedlru"},
	// The facts about a run come from many use cases, which are asked at once.
	"control/diagnosis": {"control", "control/runs", "control/reads", "control/health", "plan", "run", "run/doctor",
		"store", "engine", "authz", "internal/contain"},
	"control/watch": {"control", "control/runs", "control/reads", "plan", "run", "store", "live", "authz", "artifact"},
	// What people ask of destinations is written in the vocabulary of deliveries; the notifier carries it out.
	"control/delivery": {"control", "plan", "run", "store", "authz", "destination"},
	"control/erasing":  {"artifact", "control", "plan", "run", "store", "authz"},
	"control/bulk":     {"control", "control/runs", "plan", "run", "store", "live", "authz"},
	// Workers read secrets; servers know who read which one, and what people ask of workers.
	"control/secrets": {"control", "control/admission", "control/runs", "plan", "run", "store", "engine", "authz"},
	// The recovery acts as a principal of its own, with the rights that the tenant grants it.
	"control/duty": {"control", "control/runs", "control/admission", "control/health", "plan", "run", "run/forecast",
		"store", "engine",
		"authz"},
	// An engine's log is compared with what the use cases accepted, so the Journal knows their payloads.
	"control/journal": {"control", "control/nodes", "run/nodeset", "control/runs", "control/admission",
		"plan", "run", "store", "store/epoch", "engine", "engine/ticket",
		"authz", "artifact", "egress", "internal/sizedlru"},
	// It removes what runs left in the bucket.
	"control/retention": {"control", "plan", "run", "store", "authz", "artifact", "destination", "internal/dutycycle"},
	// The fixture of the tests of the use cases: it wires a whole server without HTTP. Only tests import it.
	"control/controltest": {everything},
	"graph": {"control", "control/access", "control/admission", "control/bulk", "control/health", "control/nodes",
		"control/reads",
		"control/erasing", "control/retention", "control/runs", "control/secrets", "control/watch", "control/delivery",
		"destination", "run", "run/doctor", "run/forecast", "run/trace", "plan", "live", "authz", "graph/limit", "graph/ws"},
	"graph/ws": {},
	// Bounds of operations, callers and addresses, with the weights of fields.
	"graph/limit": {"control", "control/health", "control/reads", "run", "graph"},
	// Settings: what each says is judged by the package that it is for.
	"server/internal/machine": {},
	// The time of the store, for a process whose machine has another.
	"server/internal/storeclock": {"store"},
	"server/config": {"artifact", "authz", "authz/oidc", "control/admission", "control/retention", "control/runs",
		"destination", "egress", "engine/namespaces", "engine/temporal", "engine/ticket", "internal/secretfile", "plan",
		"run", "sandbox", "secret/providers", "store", "store/postgres", "store/subject"},
	// Connections as the settings say: processes use them, and preflight tries them.
	"server/connect": {"engine/executor", "engine/namespaces", "engine/remote", "engine/temporal", "internal/secretfile",
		"live/redisbus", "run", "sandbox", "server/config", "store/postgres"},
	// What is missing before an installation: it uses every connection and starts nothing.
	"server/temporaladmin": {"engine/temporal", "plan", "server/config", "server/connect"},
	"server/preflight": {"artifact", "engine", "engine/temporal", "internal/secretfile", "live/redisbus", "plan",
		"sandbox", "secret/providers", "server/config", "server/connect", "store", "store/postgres"},
	"server":   {everything},
	"client":   {},
	"web":      {},
	"examples": {},
	// plans are tried out without a server; a sandbox and a private network execute this binary
	"cmd/dvt": {"client", "cmd/dvt/internal/artifactcmd", "cmd/dvt/internal/cmdline", "cmd/dvt/internal/console",
		"cmd/dvt/internal/contexts", "cmd/dvt/internal/document", "cmd/dvt/internal/erasecmd",
		"cmd/dvt/internal/installcmd",
		"cmd/dvt/internal/plancmd", "cmd/dvt/internal/runtext", "cmd/dvt/internal/stepcmd", "cmd/dvt/internal/tracecmd",
		"cmd/dvt/internal/secretcmd", "cmd/dvt/internal/smokecmd", "cmd/dvt/internal/watchview",
		"internal/privatenet", "plan", "run", "sandbox", "server", "server/config"},
	"cmd/dvt/internal/artifactcmd": {"client", "cmd/dvt/internal/cmdline", "cmd/dvt/internal/runtext", "run/nodeset"},
	"cmd/dvt/internal/cmdline":     {"client", "cmd/dvt/internal/console", "run"},
	"cmd/dvt/internal/console":     {"run"},
	"cmd/dvt/internal/consoletest": {},
	"cmd/dvt/internal/contexts":    {"cmd/dvt/internal/cmdline"},
	"cmd/dvt/internal/document":    {},
	"cmd/dvt/internal/erasecmd": {"client", "cmd/dvt/internal/cmdline", "cmd/dvt/internal/console",
		"cmd/dvt/internal/runtext", "server"},
	"cmd/dvt/internal/installcmd": {"cmd/dvt/internal/cmdline", "cmd/dvt/internal/document", "erasure",
		"engine/temporal", "export", "internal/logfold", "server", "server/config", "server/preflight",
		"server/temporaladmin", "store", "store/owner", "storeadmin"},
	"cmd/dvt/internal/plancmd": {"cmd/dvt/internal/cmdline", "cmd/dvt/internal/console", "cmd/dvt/internal/document",
		"engine/mock", "plan", "run"},
	"cmd/dvt/internal/runtext": {"client", "plan", "run"},
	"cmd/dvt/internal/secretcmd": {"client", "cmd/dvt/internal/cmdline", "cmd/dvt/internal/console",
		"cmd/dvt/internal/document", "cmd/dvt/internal/runtext"},
	"cmd/dvt/internal/smokecmd": {"client", "cmd/dvt/internal/cmdline", "cmd/dvt/internal/runtext", "plan"},
	"cmd/dvt/internal/stepcmd": {"client", "cmd/dvt/internal/cmdline", "cmd/dvt/internal/console",
		"cmd/dvt/internal/runtext", "plan"},
	"cmd/dvt/internal/tracecmd": {"client", "cmd/dvt/internal/cmdline", "cmd/dvt/internal/console",
		"cmd/dvt/internal/runtext", "otlp", "run", "run/trace"},
	"cmd/dvt/internal/watchview": {"client", "cmd/dvt/internal/console", "cmd/dvt/internal/runtext", "plan", "run"},
	"bench":                      {everything},
	"bench/rig":                  {everything},
	"bench/scale":                {},

	"internal/attacks":       {}, // tests only, which speak to processes
	"internal/vulncheck":     {}, // tests only, which run govulncheck and npm audit
	"internal/workflowcheck": {}, // tests only, which run workflowcheck on workflows
	// A panic of background work ends that work and not the process.
	"internal/contain":  {},
	"internal/archtest": {},
	// One rule chooses the line that names an error, while a step prints and in stored logs.
	"internal/errorline":               {},
	"internal/errorline/errorlinetest": {},
	"internal/testtime":                {},
	"internal/dbttest":                 {},
	// The embedded Temporal server of `dvt dev` runs in it, out of reach of other users.
	"internal/privatenet": {},
	// Processes read their secrets by it; adapters get a *tls.Config or a function, and do not know of files.
	"internal/secretfile": {},
	// One rule says which values are secret, for answers, requests and the output of steps.
	"internal/secretvalue": {},
	"internal/dutycycle":   {},
	"internal/sizedlru":    {},
	// The handler of all loggers of a process: a line that names a run gets the id of its trace.
	"internal/logfold":    {"run/trace"},
	"internal/testserver": {"internal/checkout"},
	"internal/checkout":   {},
	// The table of metrics, objectives and alerts. Rules, dashboards and documentation are generated from it.
	"internal/slo":               {},
	"internal/cmd/slogen":        {"internal/slo"},
	"internal/cmd/contract":      {"internal/archtest", "internal/checkout"},
	"internal/cmd/generatecheck": {"internal/archtest", "internal/checkout"},
	"internal/cmd/suites":        {},
}

// pure packages import nothing but the standard library and what the table allows.
var pure = []string{"plan", "run", "run/trace", "run/lineage", "store", "engine", "engine/interp", "engine/ticket",
	"egress", "web", "internal/archtest"}

// drivers are the libraries that only one package may speak.
var drivers = map[string][]string{
	"github.com/jackc/pgx": {"store/postgres", "internal/testserver", "bench", "bench/rig"}, // a floor is raw SQL
	// a floor is a workflow written by hand
	"go.temporal.io":                {"engine/temporal", "bench"},
	"google.golang.org/grpc":        {"engine/temporal", "otlp"}, // options of the SDK; codes of receivers
	"go.opentelemetry.io":           {"otlp", "otlp/spans"},
	"github.com/go-logr":            {"otlp"},
	"google.golang.org/protobuf":    {"otlp", "engine/temporal"}, // times in calls of Temporal
	"github.com/casbin":             {"authz"},
	"github.com/redis/go-redis":     {"live/redisbus"},
	"github.com/alicebob/miniredis": {"live/redisbus", "server", "control/controltest"},
	"github.com/gorilla/websocket":  {"graph/ws", "bench"},                            // a floor is its PreparedMessage
	"modernc.org/sqlite":            {"store/sqlite", "bench", "control/controltest"}, // a test reads rows beside the port
	"gocloud.dev":                   {"artifact"},
	"github.com/aws":                {"artifact", "secret/aws"},
	"github.com/Azure":              {"artifact", "secret/azure"},
	"cloud.google.com":              {"artifact"},
	"github.com/coreos/go-oidc":     {"authz/oidc"},
	"github.com/go-jose":            {"authz/oidc"},
	"golang.org/x/oauth2":           {"authz/oidc", "secret/gcp"},
	"github.com/openbao":            {"secret/vault", "internal/testserver"},
}

func TestImports_FollowTheTable(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, p := range packages(t) {
		found[row(p.Dir)] = true
		allowed, listed := imports[row(p.Dir)]
		if !listed {
			t.Errorf("%s is not in the import table: add a row and say why the package exists", p.Dir)
			continue
		}
		for _, dir := range p.Internal() {
			if row(dir) == row(p.Dir) && dir != p.Dir {
				continue // its own internal packages and test support
			}
			if slices.Contains(allowed, everything) && !strings.HasPrefix(dir, "cmd/") {
				continue
			}
			if !slices.Contains(allowed, row(dir)) {
				t.Errorf("%s imports %s, which the table does not allow: it may import %v", p.Dir, dir, allowed)
			}
		}
		if slices.Contains(pure, p.Dir) && len(p.External()) > 0 {
			t.Errorf("%s imports %v: it may import only the standard library", p.Dir, p.External())
		}
		for _, external := range p.External() {
			for driver, speakers := range drivers {
				if strings.HasPrefix(external+"/", driver+"/") && !slices.Contains(speakers, row(p.Dir)) {
					t.Errorf("%s imports %s: only %v may", p.Dir, external, speakers)
				}
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		if !found[dir] {
			t.Errorf("the import table lists %s, which does not exist", dir)
		}
	}
}

// row is the listed package that dir is, or whose private parts (its internal/ and what is below it unlisted, such as
// run/runtest) it belongs to.
func row(dir string) string {
	if _, listed := imports[dir]; listed {
		return dir
	}
	for parent := dir; strings.Contains(parent, "/"); {
		parent = parent[:strings.LastIndex(parent, "/")]
		if _, listed := imports[parent]; listed {
			return parent
		}
	}
	return dir
}

func packages(t *testing.T) []archtest.Package {
	t.Helper()
	root, files := repository(t)
	found, err := archtest.Packages(root, files)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func repository(t *testing.T) (root string, files []string) {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	if files, err = archtest.Files(root); err != nil {
		t.Fatal(err)
	}
	return root, files
}

// The engine is a client of the store: its port is written in the store's words. A store package that imported it would
// close a circle of meaning, and adapters could come to depend on one engine.
func TestImports_NoStorePackageImportsTheEngine(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if p.Dir != "store" && !strings.HasPrefix(p.Dir, "store/") {
			continue
		}
		for _, dir := range p.Internal() {
			if dir == "engine" || strings.HasPrefix(dir, "engine/") {
				t.Errorf("%s imports %s: move the part that needs the engine out of store/", p.Dir, dir)
			}
		}
	}
}

// Fixtures and suites are packages named …test. A product that imported one would contain it, and its flags. Benchmarks
// are no part of the product.
func TestImports_OnlyTestsImportTestSupport(t *testing.T) {
	t.Parallel()
	support := func(dir string) bool {
		return slices.ContainsFunc(strings.Split(dir, "/"), func(part string) bool { return strings.HasSuffix(part, "test") })
	}
	for _, p := range packages(t) {
		if support(p.Dir) || row(p.Dir) == "bench" || row(p.Dir) == "bench/rig" {
			continue
		}
		for _, dir := range p.Internal() {
			if dir != "internal/archtest" && support(dir) {
				t.Errorf("%s imports %s: only tests and test support may", p.Dir, dir)
			}
		}
	}
}
