// Package contexts reads and writes the file of contexts: named servers, and where the token of each is stored.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

// Profile is a server and the place of its token: a file, an environment variable or neither. It never holds the token.
type Profile struct {
	Server    string `yaml:"server" json:"server"`
	TokenFile string `yaml:"tokenFile,omitempty" json:"tokenFile,omitempty"`
	TokenEnv  string `yaml:"tokenEnv,omitempty" json:"tokenEnv,omitempty"`
}

// File is the content of the file of contexts, which only its owner may read.
type File struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Profile `yaml:"contexts"`
}

// contextPath returns the path of the file: DVT_CONFIG, or dvt/config.yaml under XDG_CONFIG_HOME or ~/.config.
func contextPath() (string, error) {
	if path := os.Getenv("DVT_CONFIG"); path != "" {
		return path, nil
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the XDG specification says to ignore a relative path
		home, err := os.UserHomeDir()
		if err != nil {
			return "", cmdline.Usage(fmt.Errorf("no directory for contexts is known: set DVT_CONFIG to a file: %w", err))
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "dvt", "config.yaml"), nil
}

// maxPrivate bounds a file of contexts or of a token, in bytes.
const maxPrivate = 1 << 20

// readPrivate reads a file and refuses one that other users may read or write.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf(
			"%s is open to others (mode %04o): chmod 600 it, and change the token if they may have read it", path, mode)
	}
	return io.ReadAll(io.LimitReader(f, maxPrivate))
}

// Read reads the file. A missing file is an empty one.
func Read() (File, error) {
	out := File{Contexts: map[string]Profile{}}
	path, err := contextPath()
	if err != nil {
		return out, err
	}
	doc, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, cmdline.Usage(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(doc))
	d.KnownFields(true)
	if err := d.Decode(&out); err != nil && !errors.Is(err, io.EOF) {
		return out, cmdline.Usage(fmt.Errorf("%s holds no contexts: %w", path, err))
	}
	if out.Contexts == nil {
		out.Contexts = map[string]Profile{}
	}
	return out, nil
}

// Write replaces the file atomically.
func (f File) Write() error {
	path, err := contextPath()
	if err != nil {
		return err
	}
	doc, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".config-*") // with the mode 0600
	if err != nil {
		return err
	}
	_, err = next.Write(doc)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}

// Find returns a context. Its error has the exit status 4 and tells which command lists the contexts.
func (f File) Find(name string) (Profile, error) {
	p, ok := f.Contexts[name]
	switch {
	case !ok && name == "":
		return p, &cmdline.Error{
			Status: 4, Err: errors.New(
				"no context is in use: `dvt context list` lists them, `dvt context use` selects one")}
	case !ok:
		return p, &cmdline.Error{
			Status: 4, Err: fmt.Errorf(
				"there is no context %q: `dvt context list` lists them, `dvt context set` creates one", name)}
	}
	return p, nil
}

// Check returns a usage error if the address is not usable or the token cannot be read.
func (p Profile) Check() error {
	u, err := url.Parse(p.Server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return cmdline.Usage(fmt.Errorf("the server's address must be like https://dvt.example.com, not %q", p.Server))
	}
	if u.User != nil {
		return cmdline.Usage(errors.New("the server's address must not contain a user name or password: give a token"))
	}
	if p.TokenFile != "" && p.TokenEnv != "" {
		return cmdline.Usage(errors.New("give --token-file or --token-env, not both"))
	}
	if p.TokenFile != "" {
		_, err = p.Token()
	}
	return err
}

// Token reads the token from its place. A profile without a place has the token "".
func (p Profile) Token() (string, error) {
	switch {
	case p.TokenEnv != "":
		if v := os.Getenv(p.TokenEnv); v != "" {
			return v, nil
		}
		return "", cmdline.Usage(fmt.Errorf("the environment variable %s, which must hold the token, is not set", p.TokenEnv))
	case p.TokenFile != "":
		doc, err := readPrivate(p.TokenFile)
		if err != nil {
			return "", cmdline.Usage(fmt.Errorf("the token cannot be read: %w", err))
		}
		if v := strings.TrimSpace(string(doc)); v != "" {
			return v, nil
		}
		return "", cmdline.Usage(fmt.Errorf("the token cannot be read: %s is empty", p.TokenFile))
	}
	return "", nil
}

// Where returns the place of the token for people: $VARIABLE, the path of a file, or "-".
func (p Profile) Where() string {
	switch {
	case p.TokenEnv != "":
		return "$" + p.TokenEnv
	case p.TokenFile != "":
		return p.TokenFile
	}
	return "-"
}
