package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/sandbox"
)

// Error codes of executors. Executors also use codes of package run, such as run.CodeTimeout.
const (
	CodeExitStatus      = "EXIT_STATUS"       // a program ended with a status other than 0; retryable
	CodeProgramNotFound = "PROGRAM_NOT_FOUND" // the program does not exist on the step's PATH, or cannot be started
	CodeDirNotAllowed   = "DIR_NOT_ALLOWED"   // outside the directories that the worker allows
	CodeDirNotFound     = "DIR_NOT_FOUND"     // retryable: a checkout may create the directory later
	CodeInputsInvalid   = "INPUTS_INVALID"    // the inputs do not fit the step's type
	CodeDBTFailed       = "DBT_FAILED"        // exit status 1 of dbt: a node failed; retryable (contract T219)
	CodeDBTUsage        = "DBT_USAGE"         // exit status 2 of dbt: wrong arguments; not retryable (contract T219)
	// CodeDBTNodesMissing: dbt did not execute a node that a person retried; retryable.
	CodeDBTNodesMissing = "DBT_NODES_MISSING"
	// CodeDBTNodesOpen: the nodes that a person retried ended well, and others of the step did not; retryable.
	CodeDBTNodesOpen = "DBT_NODES_OPEN"
	// CodeDBTNoState: a slim step has no manifest to compare with; not retryable.
	CodeDBTNoState      = "DBT_NO_STATE"
	CodeHTTPStatus      = "HTTP_STATUS"      // the response has an unexpected status
	CodeHTTPTransport   = "HTTP_TRANSPORT"   // no response; retryable
	CodeAddressRefused  = "ADDRESS_REFUSED"  // Config.Egress does not permit the address
	CodeUnknown         = "UNKNOWN"          // an error that is not a *Failure; retryable
	CodeTypeUnsupported = "TYPE_UNSUPPORTED" // this worker has no executor for the step's type
)

// Config has the permissions and resources that a worker gives to executors. The zero value permits the project root,
// the run's workspace and public addresses, and runs programs without a sandbox.
type Config struct {
	DBTPath      string            // dbt's program; empty: dbt on the worker's PATH
	AllowedRoots []string          // directories that steps may use, besides the project root and the run's workspace
	AllowAnyDir  bool              // steps may use any directory that is not Hidden (dvt dev)
	Egress       *egress.Guard     // the addresses that HTTP_NOTIFY and programs may call; nil: public ones
	Env          map[string]string // variables of every program, besides those that it inherits from the worker
	Grace        time.Duration     // between SIGTERM and SIGKILL of a cancelled program; zero: 5 s

	Sandbox   sandbox.Runtime           // starts programs; nil: Plain
	Limits    sandbox.Limits            // of steps that set none; zero values mean the defaults of Sandbox
	MaxLimits sandbox.Limits            // upper bounds of the limits of all steps; zero values mean no bound
	Read      []string                  // further paths that every program may read
	Write     []string                  // directories besides the workspace that every program may change
	Hidden    []string                  // paths that no plan may name; Sandbox hides them from every program
	Own       func(netip.AddrPort) bool // reports addresses of the installation itself; nil: none
	Violation func(Violation)           // receives each refused action; several goroutines call it; may be nil
}

// New makes the executors of data workers, by step type. MANUAL and SLEEP have none: they wait for a person and for a
// timer of the engine.
func New(cfg Config) map[plan.StepType]Executor {
	if cfg.Grace <= 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.Sandbox == nil {
		cfg.Sandbox = Plain()
	}
	dbt := func(verb string) Executor { return &dbtExecutor{cfg: cfg, verb: verb} }
	return map[plan.StepType]Executor{
		plan.Command:    &commandExecutor{cfg: cfg},
		plan.HTTPNotify: newHTTPExecutor(cfg),
		plan.DBTCompile: dbt("compile"),
		plan.DBTRun:     dbt("run"),
		plan.DBTTest:    dbt("test"),
		plan.Noop:       noopExecutor{},
	}
}

// Light makes the executors of a worker that holds the store's credentials: none of them runs a program or opens a
// connection that a plan names. A step of another type fails with CodeTypeUnsupported, even where a plan from before
// that rule is in the store.
func Light() map[plan.StepType]Executor {
	return map[plan.StepType]Executor{plan.Noop: noopExecutor{}}
}

// inherited lists the variables that programs get from the worker's own environment.
var inherited = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// env returns the environment of a task's program. Later sources win: the inherited variables, those of the worker's
// settings, those that name the task, those of the step, and its secrets.
func (c Config) env(t Task, own map[string]string) []string {
	all := map[string]string{}
	for _, name := range inherited {
		// A sandbox has a /tmp of its own, and the worker's directory does not exist in it.
		if name == "TMPDIR" && c.Sandbox.Capabilities().Has(plan.SandboxFiles) {
			continue
		}
		if v, ok := os.LookupEnv(name); ok {
			all[name] = v
		}
	}
	for k, v := range c.Env {
		all[k] = v
	}
	all["DVT_RUN_ID"] = t.Identity.RunID
	all["DVT_STEP_ID"] = t.Step.StepID
	all["DVT_LOGICAL_ATTEMPT"] = fmt.Sprint(t.LogicalAttempt)
	all["DVT_IDEMPOTENCY_KEY"] = t.IdempotencyKey
	all["DVT_WORKSPACE"] = t.Workspace
	if t.Traceparent != "" {
		all["TRACEPARENT"] = t.Traceparent
	}
	if t.paramsFile != "" {
		all["DVT_PARAMS_FILE"] = t.paramsFile
	}
	if t.secretsDir != "" {
		all["DVT_SECRETS_DIR"] = t.secretsDir
	}
	for k, v := range own {
		all[k] = v
	}
	for _, g := range t.secrets {
		if g.as.Env != "" {
			all[g.as.Env] = g.value.Reveal()
		}
	}
	env := make([]string, 0, len(all))
	for k, v := range all {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	return env
}

// dir returns the path of a directory that a plan names. The empty name is the workspace, and a relative one is below
// the project root. dir resolves links before it checks the permission, so that a link cannot lead out of the permitted
// directories. The error is a *Failure.
func (c Config) dir(t Task, named string) (string, error) {
	dir := named
	switch {
	case dir == "":
		return t.Workspace, nil
	case !filepath.IsAbs(dir):
		dir = filepath.Join(t.ProjectRoot, dir)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	info, statErr := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &Failure{Code: CodeDirNotFound, Message: fmt.Sprintf("directory %q does not exist", named),
			Retryable: true, Category: run.CategoryUser}
	case err != nil || statErr != nil || !info.IsDir():
		return "", &Failure{Code: CodeDirNotFound, Message: fmt.Sprintf("%q is not a directory that the worker can open",
			named), Retryable: true, Category: run.CategoryUser}
	case c.view(t).allows(resolved):
		return dir, nil
	}
	return "", &Failure{
		Code: CodeDirNotAllowed, Category: run.CategoryUser, Class: plan.ClassPolicyDeny,
		Message: fmt.Sprintf(
			"directory %q is outside the run's workspace, the project root and the directories that the worker allows "+
				"(sandbox-roots)", named),
	}
}

// invalidInputs returns the *Failure for inputs that do not decode.
func invalidInputs(err error) error {
	return &Failure{Code: CodeInputsInvalid, Message: err.Error(), Category: run.CategoryUser, Class: plan.ClassValidation}
}
