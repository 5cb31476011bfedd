package plan

import (
	"fmt"
	"slices"
	"strings"
)

// SandboxLimits has the limits of a step, the defaults of a worker, or a ceiling. A zero field means that the limit is
// not set.
type SandboxLimits struct {
	Memory int64   `json:"memory,omitempty"` // bytes
	CPU    float64 `json:"cpu,omitempty"`    // cores
	PIDs   int     `json:"pids,omitempty"`
	Disk   int64   `json:"disk,omitempty"` // bytes
}

// Limits returns the limits of s. A nil s has none.
func (s *Sandbox) Limits() SandboxLimits {
	if s == nil {
		return SandboxLimits{}
	}
	return SandboxLimits{Memory: s.Memory, CPU: s.CPU, PIDs: s.PIDs, Disk: s.Disk}
}

// Or returns l with each limit that is not set replaced by that of defaults.
func (l SandboxLimits) Or(defaults SandboxLimits) SandboxLimits {
	return SandboxLimits{
		Memory: firstSet(l.Memory, defaults.Memory), CPU: firstSet(l.CPU, defaults.CPU),
		PIDs: firstSet(l.PIDs, defaults.PIDs), Disk: firstSet(l.Disk, defaults.Disk),
	}
}

// Within returns for each field the lower limit of l and ceiling; where only one of them is set, that one. A worker
// uses asked.Or(defaults).Within(ceiling), so that the ceiling also bounds a step without limits.
func (l SandboxLimits) Within(ceiling SandboxLimits) SandboxLimits {
	return SandboxLimits{
		Memory: minSet(l.Memory, ceiling.Memory), CPU: minSet(l.CPU, ceiling.CPU),
		PIDs: minSet(l.PIDs, ceiling.PIDs), Disk: minSet(l.Disk, ceiling.Disk),
	}
}

func firstSet[T int | int64 | float64](a, b T) T {
	if a != 0 {
		return a
	}
	return b
}

func minSet[T int | int64 | float64](a, b T) T {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// SandboxCeiling holds the highest limits that a tenant's policy permits in one project and environment, and the
// isolation that it requires. The zero value permits everything.
type SandboxCeiling struct {
	Limits SandboxLimits
	// Connect lists the permitted destinations; nil leaves the decision to the guard of outgoing addresses.
	Connect []string
	Require []SandboxPart // of every program
}

// Strictest returns the ceiling that enforces both a and b.
func (a SandboxCeiling) Strictest(b SandboxCeiling) SandboxCeiling {
	return SandboxCeiling{
		Limits: a.Limits.Within(b.Limits), Connect: commonDestinations(a.Connect, b.Connect),
		Require: unionOfParts(a.Require, b.Require),
	}
}

// Apply returns the sandbox of a step that asks for s. Limits are at most those of the ceiling, destinations are those
// that both permit, and required parts are those of either. A limit that the step does not set stays 0, because the
// worker bounds its own default by the ceiling. Apply does not change s, which may be nil.
func (a SandboxCeiling) Apply(s *Sandbox) *Sandbox {
	if a.Connect == nil && len(a.Require) == 0 && s == nil {
		return nil
	}
	out := s.Clone()
	if out == nil {
		out = &Sandbox{}
	}
	asked := s.Limits()
	// Where the step sets no limit, within has that of the ceiling. The worker chooses that limit, so it is not copied.
	within := asked.Within(a.Limits)
	if asked.Memory != 0 {
		out.Memory = within.Memory
	}
	if asked.CPU != 0 {
		out.CPU = within.CPU
	}
	if asked.PIDs != 0 {
		out.PIDs = within.PIDs
	}
	if asked.Disk != 0 {
		out.Disk = within.Disk
	}
	out.Connect = commonDestinations(out.Connect, a.Connect)
	out.Require = unionOfParts(out.Require, a.Require)
	return out
}

// Exceeds lists every field of s that asks for more than the ceiling permits. The paths begin with path.
func (a SandboxCeiling) Exceeds(s *Sandbox, path string) (out []Violation) {
	if s == nil {
		return nil
	}
	asked, most := s.Limits(), a.Limits
	above := func(field string, is bool, format string, args ...any) {
		if is {
			out = append(out, Violation{Path: path + "." + field, Code: CodeRange, Message: fmt.Sprintf(format, args...)})
		}
	}
	above("memory", most.Memory != 0 && asked.Memory > most.Memory, "the tenant's policy permits at most %d bytes here",
		most.Memory)
	above("cpu", most.CPU != 0 && asked.CPU > most.CPU, "the tenant's policy permits at most %s cores here",
		plainNumber(most.CPU))
	above("pids", most.PIDs != 0 && asked.PIDs > most.PIDs,
		"the tenant's policy permits at most %d processes and threads here", most.PIDs)
	above("disk", most.Disk != 0 && asked.Disk > most.Disk, "the tenant's policy permits files of at most %d bytes here",
		most.Disk)
	if a.Connect == nil {
		return out
	}
	for i, entry := range s.Connect {
		above(fmt.Sprintf("connect[%d]", i), !isCovered(entry, a.Connect),
			"the tenant's policy does not permit connections to %s here; it permits %s", quote(entry),
			formatDestinations(a.Connect))
	}
	return out
}

// formatDestinations lists destinations for a message, at most the first five.
func formatDestinations(entries []string) string {
	const most = 5
	switch {
	case len(entries) == 0:
		return "none"
	case len(entries) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(entries[:most], ", "), len(entries)-most)
	}
	return strings.Join(entries, ", ")
}

// isCovered reports whether one entry of wide permits everything that entry permits.
func isCovered(entry string, wide []string) bool {
	d, err := ParseDestination(entry)
	return err == nil && slices.ContainsFunc(wide, func(w string) bool {
		c, err := ParseDestination(w)
		return err == nil && c.Covers(d)
	})
}

// commonDestinations lists the destinations that both lists permit. nil permits every destination.
func commonDestinations(a, b []string) []string {
	switch {
	case a == nil:
		return slices.Clone(b)
	case b == nil:
		return slices.Clone(a)
	}
	out := []string{}
	add := func(from, other []string) {
		for _, entry := range from {
			if isCovered(entry, other) && !isCovered(entry, out) {
				out = append(out, entry)
			}
		}
	}
	add(a, b)
	add(b, a)
	return out
}

// unionOfParts lists the parts of both, in the order of SandboxParts.
func unionOfParts(a, b []SandboxPart) (out []SandboxPart) {
	for _, part := range SandboxParts() {
		if slices.Contains(a, part) || slices.Contains(b, part) {
			out = append(out, part)
		}
	}
	return out
}
