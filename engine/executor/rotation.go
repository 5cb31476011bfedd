package executor

import (
	"context"
	"errors"
	"regexp"
	"slices"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/mask"
)

// renewer reads the newest values of the secrets of an attempt. *secret.Resolver implements it; without it, a rotated
// secret is seen by the next attempt.
type renewer interface {
	Renew(ctx context.Context, scope secret.Scope, refs []secret.Ref, old *secret.Set) (*secret.Set, bool, error)
}

var _ renewer = (*secret.Resolver)(nil)

// executeRotating is execute for a task with secrets. A secret may be rotated after the worker remembered it. When the
// execution fails because a credential was refused, and the provider has another value by now, the task is executed
// once more with it, within the same attempt.
func (r *Runner) executeRotating(ctx context.Context, x execution, t Task, h *host, set *secret.Set) (Result, error) {
	result, err := r.execute(ctx, x, t, h)
	if err == nil || len(t.secrets) == 0 || ctx.Err() != nil || !refusedCredential(err, h.out) {
		return result, err
	}
	again, rotated := r.renew(ctx, x, t, set)
	if !rotated {
		return result, err
	}
	h.out.redact.alsoHide(again.masker)
	h.out.print("dvt", "a credential was refused, and a secret of this step was rotated meanwhile: the step runs once "+
		"more in this attempt, with the new value")
	return r.execute(ctx, x, again, h)
}

// renew returns the task with the newest values, and whether one of them is new. The reads are recorded before the
// task gets a value.
func (r *Runner) renew(ctx context.Context, x execution, t Task, set *secret.Set) (Task, bool) {
	source, ok := r.Secrets.(renewer)
	if !ok {
		return t, false
	}
	newest, changed, err := source.Renew(ctx, secret.Scope{TenantID: t.Identity.TenantID,
		EnvironmentID: t.Identity.EnvironmentID, RunID: x.RunID}, t.Step.SecretRefs, set)
	if err != nil || !changed {
		return t, false // the failure of the execution says more than that of this read
	}
	if r.recordReads(ctx, x, len(t.Step.SecretRefs)+1, t.Step.SecretRefs, newest.Reads, nil) != nil {
		return t, false
	}
	secrets := make([]given, len(t.secrets))
	for i, g := range t.secrets {
		secrets[i] = given{g.as, newest.Values[i]}
		if len(newest.Values[i].Reveal()) < mask.MinBytes && !t.Step.SecretRefs[i].Unmasked {
			return t, false // the next attempt says why
		}
	}
	// Old values are hidden too, by all steps of the run: a program may still print one of them.
	t.masker = r.masks.join(r.WorkspaceRoot, x.RunID, valuesOf(append(slices.Clone(secrets), t.secrets...)))
	t.secrets = secrets
	return t, true
}

// refusal matches how databases, warehouses and services say that they refuse a credential.
var refusal = regexp.MustCompile(`(?i)authenticat\w* (?:failed|failure|error|denied)|failed to authenticate|` +
	`unauthori[sz]ed|access denied|log ?in failed|permission denied for user|credentials? (?:(?:is|are|has|have) )?` +
	`(?:been )?(?:invalid|expired|revoked|refused|wrong)|(?:invalid|incorrect|wrong|expired|bad) (?:user ?name or |jwt |` +
	`api |access |oauth )*(?:credentials?|password|token|key)|(?:password|token|key) (?:is |has |was )?(?:been )?` +
	`(?:invalid|incorrect|wrong|expired|revoked)`)

// refusedCredential reports whether an execution failed because a credential was refused: by the class of its failure,
// or by the line that names its error.
func refusedCredential(err error, out *output) bool {
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		return false
	}
	line, named := out.errorLine()
	return f.Class == plan.ClassAuthDeny || refusal.MatchString(f.Message) || f.Quote && named &&
		refusal.MatchString(line.Text)
}
