//go:build linux

package sandbox

import (
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// WithoutNamespaces makes a runtime work as on a machine that refuses namespaces.
func WithoutNamespaces(r Runtime) {
	if p, ok := r.(*processRuntime); ok {
		p.level = level{}
		p.seccomp = true
	}
}

// WithoutCgroups makes a runtime work as on a machine that delegates none.
func WithoutCgroups(r Runtime) {
	if p, ok := r.(*processRuntime); ok {
		p.cgroups.parent = nil
	}
}

// CgroupOf returns where the cgroups of programs are made for a part.
func CgroupOf(r Runtime, part plan.SandboxPart) string {
	if p, ok := r.(*processRuntime); ok {
		return p.cgroups.parent[part]
	}
	return ""
}

// NewAllowance returns the take method of a new allowance.
func NewAllowance() func(now time.Time, used time.Duration) bool {
	a := newAllowance()
	return a.take
}
