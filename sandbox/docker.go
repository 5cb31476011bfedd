package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// docker is the command line of Docker.
type docker struct{}

func (docker) signal(name, signal string) []string { return []string{"kill", "--signal", signal, name} }

// prepare passes the environment in an unlinked file, because other processes of the machine can read arguments.
// argv[0] is the path, because docker cannot set another one.
func (docker) prepare(name string, p Program, c Config) (prepared, error) {
	args := []string{
		"run", "--rm", "--name", name, "--pull", "never", "--network", "none", "--ipc", "private", "--read-only",
		"--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--user", fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid()),
		"--memory", strconv.FormatInt(p.Limits.Memory, 10), "--memory-swap", strconv.FormatInt(p.Limits.Memory, 10),
		"--cpus", strconv.FormatFloat(p.Limits.CPU, 'f', -1, 64), "--pids-limit", strconv.Itoa(p.Limits.PIDs),
		"--ulimit", "core=0", "--ulimit", fmt.Sprintf("fsize=%d", p.Limits.Disk),
		"--tmpfs", fmt.Sprintf("/tmp:rw,nosuid,nodev,size=%d", min(p.Limits.Disk, p.Limits.Memory)), "--workdir", p.Dir,
		"--env-file", "/proc/self/fd/3",
	}
	for _, m := range containerMounts(p.Read, p.Write, c.DeniedPaths) {
		if strings.ContainsAny(m.path, ",\"\n") {
			return prepared{}, fmt.Errorf("%w: %q has a comma, a quotation mark or a line break, which docker does not accept",
				ErrPath, m.path)
		}
		mount := fmt.Sprintf("type=bind,source=%s,target=%s", m.path, m.path)
		switch {
		case m.hidden && m.dir:
			mount = fmt.Sprintf("type=tmpfs,target=%s,tmpfs-size=4096,tmpfs-mode=0500", m.path)
		case m.hidden:
			mount = fmt.Sprintf("type=bind,source=%s,target=%s,readonly", os.DevNull, m.path)
		case !m.writable:
			mount += ",readonly"
		}
		args = append(args, "--mount", mount)
	}
	env, err := environmentFile(p.Env)
	if err != nil {
		return prepared{}, err
	}
	args = append(args, "--entrypoint", p.Path, c.Image)
	return prepared{args: append(args, p.Argv[1:]...), extra: env, clean: func() {}}, nil
}

// environmentFile returns an unlinked file, so that no other process can open it by name.
func environmentFile(env []string) (*os.File, error) {
	for _, kv := range env {
		if strings.ContainsAny(kv, "\r\n") {
			name, _, _ := strings.Cut(kv, "=")
			return nil, fmt.Errorf("%w: the variable %.100q has a line break, which docker does not accept", ErrProgram, name)
		}
	}
	f, err := os.CreateTemp("", "dvt-env-")
	if err != nil {
		return nil, fmt.Errorf("sandbox: environment: %w", err)
	}
	_ = os.Remove(f.Name())
	if _, err = f.WriteString(strings.Join(env, "\n") + "\n"); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("sandbox: environment: %w", err)
	}
	return f, nil
}
