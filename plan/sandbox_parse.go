package plan

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits of a Sandbox. Parse refuses a number outside of them, because it is probably a mistake.
const (
	MinSandboxMemory = 16 << 20 // bytes
	MaxSandboxMemory = 16 << 40
	MinSandboxCPU    = 0.01 // cores
	MaxSandboxCPU    = 1024
	MaxSandboxPIDs   = 32768
	MinSandboxDisk   = 1 << 20 // bytes
	MaxSandboxDisk   = 16 << 40

	// MaxSandboxEntries bounds each list of a Sandbox.
	MaxSandboxEntries = 64

	maxSandboxPath = 4096 // bytes, as the kernel allows
	maxHostName    = 253  // bytes, as DNS allows
)

// RunsProgram reports whether a step of a type starts a program, so that it may have a Sandbox.
func (t StepType) RunsProgram() bool {
	switch t {
	case Command, DBTCompile, DBTRun, DBTTest:
		return true
	case HTTPNotify, Manual, Noop, Sleep:
	}
	return false
}

// Clone returns a copy that shares no list with s. The clone of nil is nil.
func (s *Sandbox) Clone() *Sandbox {
	if s == nil {
		return nil
	}
	c := *s
	c.Read, c.Write, c.Connect = slices.Clone(s.Read), slices.Clone(s.Write), slices.Clone(s.Connect)
	c.Require = slices.Clone(s.Require)
	return &c
}

// sandbox reads the sandbox of a step or hook of type t. owner is "step" or "hook", for violations.
func (r *reader) sandbox(v value, p *at, t StepType, owner string) *Sandbox {
	if !t.RunsProgram() {
		if t != "" { // an unknown type was reported already
			r.report(p, CodeInvalid, "remove this: a %s %s starts no program", t, owner)
		}
		return nil
	}
	o, ok := r.object(v, p)
	if !ok {
		return nil
	}
	var s Sandbox
	if v, vp, ok := o.take("read"); ok {
		s.Read = sandboxList(r, v, vp, r.sandboxPath)
	}
	if v, vp, ok := o.take("write"); ok {
		s.Write = sandboxList(r, v, vp, r.sandboxPath)
	}
	if v, vp, ok := o.take("connect"); ok {
		// An empty list permits no connection; nil leaves the decision to the guard.
		s.Connect = append([]string{}, sandboxList(r, v, vp, r.destination)...)
	}
	if v, vp, ok := o.take("memory"); ok {
		s.Memory = r.size(v, vp, MinSandboxMemory, MaxSandboxMemory)
	}
	if v, vp, ok := o.take("cpu"); ok {
		s.CPU, _ = r.number(v, vp, MinSandboxCPU, MaxSandboxCPU)
	}
	if v, vp, ok := o.take("pids"); ok {
		s.PIDs, _ = r.integer(v, vp, 1, MaxSandboxPIDs)
	}
	if v, vp, ok := o.take("disk"); ok {
		s.Disk = r.size(v, vp, MinSandboxDisk, MaxSandboxDisk)
	}
	if v, vp, ok := o.take("require"); ok {
		s.Require = sandboxList(r, v, vp, r.sandboxPart)
	}
	o.end()
	return &s
}

// size reads a number of bytes.
func (r *reader) size(v value, p *at, low, high int) int64 {
	n, _ := r.integer(v, p, low, high)
	return int64(n)
}

// sandboxList reads a list without duplicates. read returns an entry and the key that two equal entries share.
func sandboxList[T any](r *reader, v value, p *at, read func(v value, p *at) (entry T, key string, ok bool)) []T {
	var out []T
	seen := map[string]bool{}
	n := 0
	r.array(v, p, func(v value, vp *at) {
		if n++; n > MaxSandboxEntries {
			if n == MaxSandboxEntries+1 {
				r.report(p, CodeRange, "write at most %d entries", MaxSandboxEntries)
			}
			return
		}
		entry, key, ok := read(v, vp)
		switch {
		case !ok:
		case seen[key]:
			r.report(vp, CodeDuplicate, "%s is listed twice; keep one", quote(key))
		default:
			seen[key] = true
			out = append(out, entry)
		}
	})
	return out
}

func (r *reader) sandboxPath(v value, p *at) (path, key string, ok bool) {
	path, ok = r.text(v, p)
	if !ok {
		return "", "", false
	}
	if problem := SandboxPathProblem(path); problem != "" {
		r.report(p, CodeInvalid, "%s", problem)
		return "", "", false
	}
	return path, strings.TrimSuffix(path, "/"), true
}

// SandboxPathProblem returns the problem of a path of a Sandbox, or "" for a valid path. It refuses ".." even where the
// path stays inside, because behind a symbolic link ".." leads to another directory.
func SandboxPathProblem(path string) string {
	switch {
	case path == "":
		return "write the path of a file or directory"
	case len(path) > maxSandboxPath:
		return fmt.Sprintf("shorten this to %d bytes", maxSandboxPath)
	case strings.ContainsRune(path, 0):
		return "remove the NUL character; paths cannot contain it"
	case slices.Contains(strings.Split(path, "/"), ".."):
		return "remove the .. from this path; write the path that it leads to"
	}
	return ""
}

func (r *reader) destination(v value, p *at) (entry, key string, ok bool) {
	entry, ok = r.text(v, p)
	if !ok {
		return "", "", false
	}
	d, err := ParseDestination(entry)
	if err != nil {
		r.report(p, CodeInvalid, "%s", err)
		return "", "", false
	}
	return entry, d.String(), true
}

func (r *reader) sandboxPart(v value, p *at) (part SandboxPart, key string, ok bool) {
	var words []string
	for _, part := range SandboxParts() {
		words = append(words, string(part))
	}
	key, ok = r.oneOf(v, p, words...)
	return SandboxPart(key), key, ok
}

// Destination is a TCP destination of a program. Host is a name in lower case or an address; "" means every host.
type Destination struct {
	Host string
	Port uint16
}

var (
	portPattern = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)
	hostPattern = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)
	lastNumeric = regexp.MustCompile(`(^|\.)[0-9]+$`)
)

// ParseDestination parses an entry of Sandbox.Connect: "PORT", "HOST:PORT" or "[IPv6]:PORT". Its error says how to
// correct the entry.
func ParseDestination(entry string) (Destination, error) {
	host, port := "", entry
	if i := strings.LastIndexByte(entry, ':'); i >= 0 {
		host, port = entry[:i], entry[i+1:]
		if host == "" {
			return Destination{}, fmt.Errorf(`%s has no host; write %s for every host`, quote(entry), quote(port))
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || !portPattern.MatchString(port) {
		return Destination{}, fmt.Errorf(
			`%s is not a destination; write "PORT", "HOST:PORT" or "[IPv6]:PORT" with a port from 1 to 65535`, quote(entry))
	}
	if host == "" {
		return Destination{Port: uint16(n)}, nil
	}
	host, ok := canonicalHost(host)
	if !ok {
		return Destination{}, fmt.Errorf(`%s has no valid host; write a name, an IPv4 address, or an IPv6 address in brackets`,
			quote(entry))
	}
	return Destination{Host: host, Port: uint16(n)}, nil
}

// canonicalHost parses the host of a destination. It refuses a name that ends with a number, because that is probably a
// mistyped address.
func canonicalHost(host string) (string, bool) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return addr.String(), closed && err == nil && addr.Is6() && addr.Zone() == ""
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String(), addr.Is4()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host, len(host) <= maxHostName && hostPattern.MatchString(host) && !lastNumeric.MatchString(host)
}

// String returns the destination in the form that ParseDestination accepts.
func (d Destination) String() string {
	port := strconv.Itoa(int(d.Port))
	switch {
	case d.Host == "":
		return port
	case strings.ContainsRune(d.Host, ':'):
		return "[" + d.Host + "]:" + port
	}
	return d.Host + ":" + port
}

// Covers reports whether d permits every connection that other permits.
func (d Destination) Covers(other Destination) bool {
	return d.Port == other.Port && (d.Host == "" || d.Host == other.Host)
}
