package plan

import (
	"fmt"
	"slices"
	"strings"
)

// SupportedSchemas lists the schema versions that this build accepts (contract T140). "v1" means v1.0.
func SupportedSchemas() []string { return []string{"v1.0", "v1.1", "v1.2"} }

func canonicalSchema(s string) string {
	if s == "v1" {
		return "v1.0"
	}
	return s
}

// lastDays are the days until which dvt reads deprecated schema versions, at least (contract R281).
var lastDays = map[string]string{"v1.0": "2028-06-30"} //nolint:gochecknoglobals // a table

// SchemaEnd returns the day, such as "2028-06-30", until which dvt reads documents of a schema version at least. It is
// empty for a version that is not deprecated.
func SchemaEnd(version string) string { return lastDays[canonicalSchema(version)] }

func checkSchema(s string) error {
	if supported := SupportedSchemas(); !slices.Contains(supported, canonicalSchema(s)) {
		return fmt.Errorf("%w: %s; use one of %s", ErrUnsupportedSchema, quote(s), strings.Join(supported, ", "))
	}
	return nil
}

// Parse parses an ExecutionPlan from its JSON document. It is strict: unknown fields and duplicate keys are violations,
// and so is every error that would otherwise appear only at run time (contract L01, T13, T66, T70-T72, T142, T146,
// T179, T218). A queue that a step names must be one of q for the scope of the plan, on a plane on which steps of its
// type run. Parse ignores metadata.adapterConstraints, which planners exchange with each other.
//
// Errors: ErrTooLarge for a document above MaxDocumentBytes, before it is parsed. ErrUnsupportedSchema if schemaVersion
// is not one of SupportedSchemas; the rest of the document is then not checked. *InvalidError with all violations.
// Parse takes time linear in the document and never panics.
func Parse(doc []byte, q Queues) (Plan, error) {
	if len(doc) > MaxDocumentBytes {
		return Plan{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(doc), MaxDocumentBytes)
	}
	r := &reader{}
	if err := wellFormed(doc); err != nil {
		r.report(nil, CodeInvalid, "%s", err)
		return Plan{}, r.err()
	}
	o, ok := r.object(trim(doc), nil)
	if !ok {
		return Plan{}, r.err()
	}
	var p Plan
	if v, vp, ok := o.need("schemaVersion", `"v1.2", or the version that the planner wrote for`); ok {
		if p.SchemaVersion, ok = r.text(v, vp); ok {
			if err := checkSchema(p.SchemaVersion); err != nil {
				return Plan{}, err
			}
		}
	}
	if v, vp, ok := o.need("metadata", "the identity and the author of the plan"); ok {
		p.Metadata = r.metadata(v, vp, p.SchemaVersion)
	}
	if v, vp, ok := o.need("scope", "the tenant, project and environment of the plan"); ok {
		p.Scope = r.scope(v, vp)
		if p.Scope.EnvironmentID != "" {
			r.checkReserved(vp.field("environmentId"), q, q.For(p.Scope.TenantID, p.Scope.EnvironmentID))
		}
	}
	if v, vp, ok := o.need("steps", "a list of at least one step"); ok {
		p.Steps = r.steps(v, vp, p.Scope, q.For(p.Scope.TenantID, p.Scope.EnvironmentID))
	}
	o.end()
	if err := r.err(); err != nil {
		return Plan{}, err
	}
	return p, nil
}

func (r *reader) metadata(v value, p *at, schema string) Metadata {
	var m Metadata
	o, ok := r.object(v, p)
	if !ok {
		return m
	}
	if v, vp, ok := o.need("planId", "the name of the plan"); ok {
		m.PlanID, _ = r.id(v, vp)
	}
	if v, vp, ok := o.need("planVersion", `the version of the plan, such as "1.0"`); ok {
		m.PlanVersion, _ = r.id(v, vp)
	}
	if v, vp, ok := o.need("createdAt", `a time such as "2026-11-21T00:00:00Z"`); ok {
		m.CreatedAt = r.timestamp(v, vp)
	}
	if v, vp, ok := o.need("createdBy", "the person or planner that made the plan"); ok {
		m.CreatedBy = r.label(v, vp)
	}
	if v, vp, ok := o.need("schemaVersion", "the same as the document's own schemaVersion"); ok {
		var isText bool
		m.SchemaVersion, isText = r.text(v, vp)
		if isText && schema != "" && canonicalSchema(m.SchemaVersion) != canonicalSchema(schema) {
			r.report(vp, CodeInvalid, "write %s, as in the document's own schemaVersion", quote(schema))
		}
	}
	if v, vp, ok := o.take("failurePolicy"); ok {
		m.FailurePolicy = r.failurePolicy(v, vp)
	}
	if v, vp, ok := o.take("deadline"); ok {
		m.Deadline = r.deadline(v, vp)
	}
	o.take("adapterConstraints")
	o.end()
	return m
}

func (r *reader) failurePolicy(v value, p *at) FailurePolicy {
	var f FailurePolicy
	o, ok := r.object(v, p)
	if !ok {
		return f
	}
	if v, vp, ok := o.take("retryWindowSeconds"); ok {
		if n, ok := r.integer(v, vp, 0, maxRetryWindowSeconds); ok {
			f.RetryWindowSeconds = &n
		}
	}
	if v, vp, ok := o.take("cancelRunning"); ok {
		f.CancelRunning = r.boolean(v, vp)
	}
	o.end()
	return f
}

func (r *reader) scope(v value, p *at) Scope {
	var s Scope
	o, ok := r.object(v, p)
	if !ok {
		return s
	}
	if v, vp, ok := o.need("tenantId", "the tenant that owns the plan"); ok {
		s.TenantID, _ = r.id(v, vp)
	}
	if v, vp, ok := o.need("projectId", "the project that the plan belongs to"); ok {
		s.ProjectID, _ = r.id(v, vp)
	}
	if v, vp, ok := o.need("environmentId", "the environment that the plan runs in"); ok {
		s.EnvironmentID, _ = r.id(v, vp)
	}
	if v, vp, ok := o.need("repoSha", "the commit that the plan was made from"); ok {
		s.RepoSHA = r.label(v, vp)
	}
	o.end()
	return s
}
