package rig

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Describe describes the machine, its disk and the versions for the head of a results file. It contains no host name
// and no path, because the results are committed to the repository.
func (r *Rig) Describe(ctx context.Context) (string, error) {
	native, err := flush(r.Dir)
	if err != nil {
		return "", err
	}
	lines := []string{
		fmt.Sprintf("Measured with `make bench` on %s; CONTRIBUTING.md says how to read a line.",
			time.Now().UTC().Format(time.DateOnly)),
		fmt.Sprintf("Machine: %d cores (%s), %s of memory, files on %s, %s/%s.", runtime.NumCPU(),
			procField("/proc/cpuinfo", "model name"),
			memory(), fileSystem(r.Dir), runtime.GOOS, runtime.GOARCH),
		fmt.Sprintf("Flush: fdatasync of 8 KiB takes %s here; where a figure says 1 ms, each flush takes 1 ms longer.",
			Short(native)),
	}
	for _, d := range []Disk{NativeFlush, OneMS} {
		s := r.Servers[d]
		if s == nil {
			continue
		}
		took, err := loneCommit(ctx, s.DSN)
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("PostgreSQL with the disk's flush %s: a lone commit of one row takes %s (p50).", d,
			Short(took)))
	}
	versions, err := r.versions(ctx)
	if err != nil {
		return "", err
	}
	lines = append(lines, "Versions: "+strings.Join(versions, ", ")+".",
		"PostgreSQL's settings besides its defaults: "+strings.Join(postgresSettings, ", ")+
			". Servers and bench share the cores.")
	return strings.Join(lines, "\n") + "\n", nil
}

// versions returns the versions of Go and of the servers that were started.
func (r *Rig) versions(ctx context.Context) ([]string, error) {
	out := []string{runtime.Version()}
	for _, s := range r.Servers {
		var version string
		if err := Connected(ctx, s.DSN, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SHOW server_version`).Scan(&version)
		}); err != nil {
			return nil, err
		}
		out = append(out, "PostgreSQL "+version)
		break
	}
	if r.redis != nil {
		version, err := r.redis.Version()
		if err != nil {
			return nil, err
		}
		out = append(out, version)
	}
	return out, nil
}

// procField returns the first field of that name in a file of /proc, or "NAME unknown".
func procField(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return name + " unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return name + " unknown"
}

// memory returns the memory of the machine, in GiB.
func memory() string {
	var kib int64
	if _, err := fmt.Sscan(procField("/proc/meminfo", "MemTotal"), &kib); err != nil {
		return "an unknown amount"
	}
	return fmt.Sprintf("%.1f GiB", float64(kib)/(1<<20))
}

// fileSystem returns the name of the file system of dir.
func fileSystem(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "an unknown file system"
	}
	switch s.Type {
	case 0xEF53:
		return "ext4"
	case 0x58465342:
		return "xfs"
	case 0x9123683E:
		return "btrfs"
	case 0x794C7630:
		return "overlayfs"
	case 0x01021994:
		return "tmpfs (memory)"
	}
	return fmt.Sprintf("a file system of type %#x", s.Type)
}
