//go:build linux

package sandbox

import (
	"time"

	"golang.org/x/sys/unix"

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

// NewAllowance returns the methods of a new allowance.
func NewAllowance() (begin func(now time.Time, used time.Duration) bool, end func(used time.Duration)) {
	a := newAllowance()
	return a.begin, a.end
}

// ReportUnexplained reports the lines of a program that has no time left for explanations and closed its memory.
func ReportUnexplained(report func(Violation)) {
	e := explainer{violations: &violations{report: report}, valid: func(*notification) bool { return true }}
	e.started.Store(true)
	e.hasTime()
	e.noteUnreadable(&notification{}, unix.EPERM)
}
