package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/mask"
	"github.com/dvt-engine/dvt/store"
)

// Secrets reads the values of secrets. *secret.Resolver implements it.
type Secrets interface {
	Resolve(ctx context.Context, scope secret.Scope, refs []secret.Ref) (*secret.Set, error)
}

// given is a secret that an attempt has got.
type given struct {
	as    plan.SecretAs
	value secret.Value
}

// secretsDir is the directory of files with secrets. It is in memory where the system has such a directory, so that no
// disk keeps a value.
func secretsDir() string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		return filepath.Join(memory, fmt.Sprintf("dvt-secrets-%d", os.Getuid()))
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("dvt-secrets-%d", os.Getuid()))
}

// resolve reads the secrets of a task, and records in the Journal what was read before anybody gets a value. The caller
// releases the set, which may be empty but is never nil. The error is a *Failure, or the cause of ctx.
func (r *Runner) resolve(ctx context.Context, x execution, t Task) (*secret.Set, []given, error) {
	refs := t.Step.SecretRefs
	if len(refs) == 0 || !t.Step.Type.UsesSecrets() {
		return &secret.Set{}, nil, nil
	}
	source := r.Secrets
	if source == nil {
		source = secret.NewResolver()
	}
	set, err := source.Resolve(ctx, secret.Scope{TenantID: t.Identity.TenantID,
		EnvironmentID: t.Identity.EnvironmentID, RunID: x.RunID}, refs)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return &secret.Set{}, nil, cause
	}
	if set == nil {
		set = &secret.Set{}
	}
	if failed := r.recordReads(ctx, x, 1, refs, set.Reads, err); failed != nil {
		return set, nil, failed
	}
	if err != nil {
		return &secret.Set{}, nil, secretFailure(err)
	}
	out := make([]given, len(refs))
	for i, ref := range refs {
		out[i] = given{ref.Destination(), set.Values[i]}
		if f := tooShort(ref, set.Values[i]); f != nil {
			return set, nil, f
		}
	}
	return set, out, nil
}

// tooShort returns the failure of a step with a value that its output cannot hide; nil when it can, or need not.
func tooShort(ref secret.Ref, value secret.Value) *Failure {
	if len(value.Reveal()) >= mask.MinBytes || ref.Unmasked {
		return nil
	}
	return &Failure{Code: string(run.CodeSecretDenied), Category: run.CategoryUser, Class: plan.ClassPolicyDeny,
		Message: fmt.Sprintf("the secret %q of the provider %q has fewer than %d bytes, so it cannot be hidden in the "+
			"output of the step; use a longer one, or set unmasked: true in the plan", ref.Key, ref.Provider, mask.MinBytes)}
}

// CheckSecrets says which secrets source can read for a scope, in the order of refs. It forgets the values and ends
// leases at once.
func CheckSecrets(ctx context.Context, source Secrets, scope secret.Scope,
	refs []engine.SecretRef) []engine.CheckedSecret {
	out := make([]engine.CheckedSecret, len(refs))
	var all sync.WaitGroup
	for i, ref := range refs {
		all.Go(func() { out[i] = checkSecret(ctx, source, scope, ref) })
	}
	all.Wait()
	return out
}

func checkSecret(ctx context.Context, source Secrets, scope secret.Scope, asked engine.SecretRef) engine.CheckedSecret {
	ref := secret.Ref{Provider: asked.Provider, Key: asked.Key, Version: asked.Version, Unmasked: asked.Unmasked}
	set, err := source.Resolve(ctx, scope, []secret.Ref{ref})
	var failed *Failure
	if err != nil {
		failed = secretFailure(err)
	} else {
		defer func() { _ = set.Release(context.WithoutCancel(ctx)) }()
		failed = tooShort(ref, set.Values[0])
	}
	if failed != nil {
		return engine.CheckedSecret{Code: run.Code(failed.Code), Message: failed.Message}
	}
	return engine.CheckedSecret{Answered: set.Reads[0].Version}
}

// Delays between tries to record reads of secrets.
const (
	recordRetry     = 200 * time.Millisecond
	recordRetryMost = 5 * time.Second
)

// recordReads sends the records of what was read until the Journal has stored them. first is the number of the first
// record within the engine attempt. A secret without an entry in reads ended as all says. The error is the cause of
// ctx, or a *Failure when the Journal refuses them.
func (r *Runner) recordReads(ctx context.Context, x execution, first int, refs []secret.Ref, reads []secret.Read,
	all error) error {
	call := engine.SecretReads{RunID: x.RunID, StepID: x.StepID, LogicalAttempt: x.LogicalAttempt,
		EngineAttempt: x.EngineAttempt, N: x.N, Hook: x.hook, StartedSeq: x.startedSeq, Key: x.key, Worker: r.Worker}
	for i, ref := range refs {
		read := secret.Read{Err: all}
		if i < len(reads) {
			read = reads[i]
		}
		row := engine.SecretRead{No: first + i, Provider: ref.Provider, Key: ref.Key, Version: ref.Version,
			Answered: read.Version, Cached: read.Cached}
		if read.Err != nil {
			row.Code = run.Code(secretFailure(read.Err).Code)
		}
		call.Reads = append(call.Reads, row)
	}
	var refused error
	err := persist(ctx, recordRetry, recordRetryMost, func() error {
		err := r.Journal.SecretReads(ctx, call)
		if refused = nil; errors.Is(err, engine.ErrRefused) || errors.Is(err, store.ErrNotFound) {
			refused = err
			return nil
		}
		if err != nil {
			r.warn(ctx, x.Dispatch, "the reads of secrets are not recorded yet, so the step waits", err)
		}
		return err
	})
	switch {
	case err != nil:
		return cmp.Or(context.Cause(ctx), err)
	case refused != nil:
		r.warn(ctx, x.Dispatch, "the record of reads of secrets was refused", refused)
		return &Failure{Code: string(run.CodeSecretsUnavailable), Retryable: true, Category: run.CategorySystem,
			Class:   plan.ClassTransient,
			Message: "the server refused the record of who read the secrets, so the step did not start"}
	}
	return nil
}

// keepLeases renews the leases of the set until stop is called, which also ends them. A lease that is lost is told in
// the log of the step.
func keepLeases(ctx context.Context, set *secret.Set, out *output) (stop func()) {
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		set.Keep(renewing, func(err error) { out.print("dvt", err.Error()) })
	}()
	return func() {
		cancel()
		<-done
		if err := set.Release(context.WithoutCancel(ctx)); err != nil {
			out.print("dvt", err.Error())
		}
	}
}

// secretFailure returns the failure of a step whose secrets were not all read. It may be retried when each of the
// errors may go away by itself.
func secretFailure(err error) *Failure {
	f := &Failure{Code: string(run.CodeSecretsUnavailable), Retryable: true, Category: run.CategorySystem,
		Class: plan.ClassTransient, Message: strings.ReplaceAll(err.Error(), "\n", "; ")}
	switch {
	case errors.Is(err, secret.ErrDenied):
		f.Code, f.Retryable, f.Category, f.Class = string(run.CodeSecretDenied), false, run.CategoryUser, plan.ClassAuthDeny
	case errors.Is(err, secret.ErrNotFound):
		f.Code, f.Retryable, f.Category, f.Class = string(run.CodeSecretNotFound), false, run.CategoryUser,
			plan.ClassValidation
	}
	return f
}

// withSecrets writes the secrets that the step wants as files to a directory of this execution, which programs find in
// DVT_SECRETS_DIR. remove removes it.
func (t Task) withSecrets() (with Task, remove func(), err error) {
	var files []given
	for _, g := range t.secrets {
		if g.as.File != "" {
			files = append(files, g)
		}
	}
	if len(files) == 0 {
		return t, func() {}, nil
	}
	parent := secretsDir()
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return t, nil, fmt.Errorf("secrets: %s", reason(err))
	}
	if info, err := os.Lstat(parent); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return t, nil, fmt.Errorf("secrets: the directory %s must belong to the worker alone (mode 0700)", parent)
	}
	made, err := os.MkdirTemp(parent, secret.FreshPattern)
	if err != nil {
		return t, nil, fmt.Errorf("secrets: %s", reason(err))
	}
	// The next worker removes what a killed one held.
	dir, release, err := secret.Hold(made)
	if err != nil {
		_ = os.Remove(made)
		return t, nil, fmt.Errorf("secrets: %s", reason(err))
	}
	remove = func() {
		_ = os.RemoveAll(dir)
		release()
	}
	for _, g := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(g.as.File)), []byte(g.value.Reveal()), 0o600); err != nil {
			remove()
			return t, nil, fmt.Errorf("secrets: %s", reason(err))
		}
	}
	t.secretsDir = dir
	return t, remove, nil
}

// SweepSecrets removes files with secrets that killed workers of this user left behind.
func SweepSecrets() {
	entries, _ := os.ReadDir(secretsDir())
	for _, e := range entries {
		path := filepath.Join(secretsDir(), e.Name())
		if lives, known := secret.HolderLives(path); lives || !known {
			continue
		}
		_ = os.RemoveAll(path)
	}
}

// valuesOf returns the values of secrets. A masker ignores those that the plan permits unmasked: they are too short.
func valuesOf(secrets []given) []string {
	values := make([]string, len(secrets))
	for i, g := range secrets {
		values[i] = g.value.Reveal()
	}
	return values
}

var placeholder = regexp.MustCompile(`\$\{secret:([^}]*)\}`)

// fill replaces each ${secret:NAME} in a text by the value of the secret with that name, written by encode. The error
// is a *Failure that names a secret which the step does not have.
func (t Task) fill(text string, encode func(string) string) (string, error) {
	missing := ""
	out := placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name := placeholder.FindStringSubmatch(found)[1]
		for _, g := range t.secrets {
			if g.as.Name() == name {
				return encode(g.value.Reveal())
			}
		}
		missing = name
		return found
	})
	if missing != "" {
		return "", &Failure{Code: CodeInputsInvalid, Category: run.CategoryUser, Class: plan.ClassValidation,
			Message: fmt.Sprintf("${secret:%s} names no secret of the step; add it to secretRefs", missing)}
	}
	return out, nil
}

// fillHTTP puts the secrets into the headers and the body of a request.
func (t Task) fillHTTP(in plan.HTTPInputs) (plan.HTTPInputs, error) {
	headers := map[string]string{}
	for name, text := range in.Headers {
		filled, err := t.fill(text, func(value string) string { return value })
		if err != nil {
			return in, err
		}
		headers[name] = filled
	}
	in.Headers = headers
	body, err := t.fill(string(in.Body), func(value string) string { return mask.InJSON(value, false) })
	in.Body = json.RawMessage(body)
	return in, err
}
