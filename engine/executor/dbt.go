package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor/dbtlog"
	"github.com/dvt-engine/dvt/engine/executor/dbtprofile"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
	"github.com/dvt-engine/dvt/sandbox"
)

// dbtExecutor runs dbt. Every attempt has its own target and log path in the run's workspace, so that dbt writes
// nothing into the checkout of the project (contract T219). The attempt's artifacts are manifest.json and
// run_results.json.
type dbtExecutor struct {
	cfg  Config
	verb string // compile, run or test
}

func (d *dbtExecutor) Execute(ctx context.Context, t Task, h Host) (Result, error) {
	in, err := plan.DecodeDBT(t.Step.Inputs)
	if err != nil {
		return Result{}, invalidInputs(err)
	}
	project, err := d.cfg.dir(t, in.ProjectDir)
	if err != nil {
		return Result{}, err
	}
	profiles := project
	if in.ProfilesDir != "" {
		if profiles, err = d.cfg.dir(t, in.ProfilesDir); err != nil {
			return Result{}, err
		}
	}
	own := attemptDir(t, t.EngineAttempt)
	target := filepath.Join(own, targetDir)
	files := workspace{t.Workspace}
	if err := files.recreate(own); err != nil {
		return Result{}, fmt.Errorf("executor: dbt: %w", err)
	}
	if in.Vars, err = dbtVars(t.Params, in.Vars); err != nil {
		return Result{}, err
	}
	if err := checkTarget(in.Vars, project, profiles); err != nil {
		return Result{}, err
	}
	t, remove, err := t.withParams()
	if err != nil {
		return Result{}, err
	}
	defer remove()
	t, removeSecrets, err := t.withSecrets()
	if err != nil {
		return Result{}, err
	}
	defer removeSecrets()
	compare, err := slim(ctx, h, files, own, t, &in)
	if err != nil {
		return Result{}, err
	}
	verb, only := d.verb, []string(nil)
	if t.Nodes != nil {
		sel := withoutEnded(t, h, files, t.Nodes)
		if t.Nodes = sel; len(sel.Nodes) == 0 { // earlier tries ended all of them well
			return finished(d.verb, sel)
		}
		verb = nodeset.Verb(verb, idsOf(sel.Nodes))
		if only, err = selectArgs(files, own, sel); err != nil {
			return Result{}, err
		}
	}
	argv, err := d.argv(verb, only, in, project, profiles, target, filepath.Join(own, logsDir))
	if err != nil {
		return Result{}, err
	}
	argv = append(argv, compare...)
	env := d.cfg.env(t, map[string]string{"DBT_SEND_ANONYMOUS_USAGE_STATS": "0", "PYTHONUNBUFFERED": "1"})
	h.ReportWarehouse(dbtprofile.Namespace(dbtprofile.Source{Project: project, Profiles: profiles, Target: in.Target,
		Env: env, Vars: in.Vars}))
	log := dbtLog{print: h.Print, nodes: trackerOf(h, files, target, filepath.Join(own, parsedDir))}
	program, err := d.cfg.program(t, h, argv, env, project, profiles)
	if err != nil {
		return Result{}, err
	}
	p := process{runtime: d.cfg.Sandbox, program: program, grace: d.cfg.Grace, print: log.line, exited: h.Exited,
		secrets: t.masker}
	parsing, stopParsing := context.WithCancel(ctx)
	var parsed sync.WaitGroup
	log.versionKnown = func(version string) {
		if argv := d.parseArgv(in, project, profiles, own); writesManifestLate(version) && argv != nil {
			parse := p
			parse.program.Argv, parse.print, parse.exited = argv, func(string, string) {}, func(sandbox.Exit) {}
			parsed.Go(func() { _, _ = parse.run(parsing) }) // without it the nodes are reported at the end
		}
	}
	exit, err := p.run(ctx)
	stopParsing()
	parsed.Wait()
	if err != nil {
		return Result{}, err
	}
	status := exit.Status
	results, readErr := readRunResults(files, filepath.Join(target, "run_results.json"))
	if len(compare) > 0 && errors.Is(readErr, fs.ErrNotExist) { // nothing was modified
		readErr = nil
	}
	if readErr != nil && status == 0 {
		return Result{}, fmt.Errorf("executor: dbt: %w", readErr)
	}
	log.nodes.Flush()
	results.complete(log.nodes, log.rowCounts())
	res := Result{Value: results.summary(verb, log.rowCounts())}
	var keepErr error
	res.Artifacts, keepErr = keepDBT(ctx, h, files, target)
	if len(compare) > 0 && keepErr == nil && t.Nodes == nil {
		var why []run.ArtifactRef
		why, keepErr = keepReasons(ctx, h, files, own, t, results)
		res.Artifacts = append(res.Artifacts, why...)
	}
	if f := checkSelection(t.Nodes, results); status == 0 && keepErr == nil && f != nil {
		f.Artifacts, f.Value = res.Artifacts, res.Value
		return res, f
	}
	if status == 0 {
		return res, keepErr
	}
	if keepErr != nil { // the failure of dbt says more
		h.Print("dvt", keepErr.Error())
	}
	if f := boundFailure(exit, program.Limits, "dbt "+verb); f != nil {
		f.Artifacts, f.Value = res.Artifacts, res.Value
		return res, f
	}
	f := &Failure{
		Code: CodeDBTFailed, Retryable: true, Category: run.CategoryUser,
		Message: results.firstFailure(), Quote: true, Artifacts: res.Artifacts, Value: res.Value,
	}
	if status == 2 {
		f.Code, f.Retryable = CodeDBTUsage, false
	}
	if f.Message == "" {
		f.Message = endOf("dbt "+verb, status)
	}
	return res, f
}

// finished returns the result of an attempt that has nothing left to execute. dbt does not run, and so do no hooks.
func finished(verb string, sel *engine.NodeSelection) (Result, error) {
	res := Result{Value: runResults{}.summary(verb, nil)}
	if f := checkSelection(sel, runResults{}); f != nil {
		return res, f
	}
	return res, nil
}

// argv returns dbt's command line: the arguments of the plan, and flags that keep the checkout clean and make the
// output readable for programs. only, when set, has the arguments that select nodes, in place of those of the plan.
func (d *dbtExecutor) argv(verb string, only []string, in plan.DBTInputs, project, profiles, target, logs string) (
	[]string, error) {
	if only != nil {
		in.Select, in.Exclude = "", ""
	}
	dbt := d.cfg.DBTPath
	if dbt == "" {
		dbt = "dbt"
	}
	argv := []string{dbt, "--log-format", "json", "--log-level", "info", "--log-format-file", "json",
		"--log-level-file", "info", "--no-use-colors", verb,
		"--project-dir", project, "--profiles-dir", profiles, "--target-path", target, "--log-path", logs}
	for _, f := range []struct{ flag, value string }{{"--select", in.Select}, {"--exclude", in.Exclude},
		{"--target", in.Target}} {
		words := strings.Fields(f.value)
		if len(words) == 0 {
			continue
		}
		for _, w := range words {
			if strings.HasPrefix(w, "-") {
				return nil, &Failure{Code: CodeDBTUsage, Category: run.CategoryUser, Class: plan.ClassValidation,
					Message: fmt.Sprintf("%s: %q would be read as a flag", strings.TrimPrefix(f.flag, "--"), w)}
			}
		}
		argv = append(append(argv, f.flag), words...)
	}
	argv = append(argv, only...)
	if len(in.Vars) > 0 {
		argv = append(argv, "--vars", string(in.Vars))
	}
	if in.Threads > 0 {
		argv = append(argv, "--threads", strconv.Itoa(in.Threads))
	}
	if in.FullRefresh && verb != "test" {
		argv = append(argv, "--full-refresh")
	}
	return argv, nil
}

const (
	targetDir    = "target" // within the directory of an attempt; the artifacts of dbt are in it
	manifestFile = "manifest.json"
	// maxTrackedManifest is the size of the largest manifest by which nodes are reported, in bytes. The nodes of a
	// larger project are not reported.
	maxTrackedManifest = 128 << 20
)

// parsedDir is the directory within that of an attempt into which dbt parse writes.
const parsedDir = "parsed"

// writesManifestLate reports whether a version of dbt writes the manifest when it ends. The versions of dbt 1 write it
// before the first node.
func writesManifestLate(version string) bool { return !strings.HasPrefix(version, "1.") }

// trackerOf returns the tracker of an execution. It reads the manifest of target, or else that of parsed.
func trackerOf(h Host, files workspace, target, parsed string) *dbtlog.Tracker {
	return &dbtlog.Tracker{Report: h.ReportNode, Open: func(read func(io.Reader) error) error {
		var err error
		for _, dir := range []string{target, parsed} {
			err = files.open(filepath.Join(dir, manifestFile), maxTrackedManifest,
				func(f io.Reader, size int64) error { return read(io.LimitReader(f, size)) })
			if err == nil {
				return nil
			}
		}
		return err
	}}
}

// parseArgv returns the command line that writes the manifest of an execution into a directory of its own, beside the
// execution; nil when the inputs give none.
func (d *dbtExecutor) parseArgv(in plan.DBTInputs, project, profiles, own string) []string {
	in.Select, in.Exclude, in.Threads, in.FullRefresh = "", "", 0, false
	argv, err := d.argv("parse", nil, in, project, profiles, filepath.Join(own, parsedDir), filepath.Join(own, parsedDir))
	if err != nil {
		return nil
	}
	return argv
}

// keepDBT stores the artifacts of dbt. It prints the reason for a file that cannot be read. The error is the *Failure
// for one that could not be stored.
func keepDBT(ctx context.Context, h Host, files workspace, target string) (refs []run.ArtifactRef, err error) {
	for _, file := range []struct {
		kind run.ArtifactKind
		name string
	}{{run.KindDBTManifest, manifestFile}, {run.KindDBTRunResults, "run_results.json"}} {
		var ref run.ArtifactRef
		err := files.open(filepath.Join(target, file.name), MaxArtifactBytes, func(f io.Reader, size int64) (err error) {
			if size > maxPlainJSON {
				ref, err = h.KeepJSON(ctx, file.kind, file.name, f)
				return err
			}
			body, err := io.ReadAll(io.LimitReader(f, size))
			if err == nil {
				ref, err = h.Keep(ctx, file.kind, file.name, body)
			}
			return err
		})
		var failure *Failure
		switch {
		case err == nil:
			refs = append(refs, ref)
		case errors.Is(err, fs.ErrNotExist):
		case errors.As(err, &failure):
			return refs, failure
		default:
			h.Print("dvt", file.name+" was not stored: "+err.Error())
		}
	}
	return refs, nil
}

// maxPlainJSON is the size up to which a document is redacted in memory, and stored with its own white space.
const maxPlainJSON = 8 << 20
