// Package contexts reads and writes the file of contexts: named servers with the source of each one's token.
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

// Profile is a server, and where the token for it is. The token itself is in no profile.
type Profile struct {
	Server    string `yaml:"server" json:"server"`
	TokenFile string `yaml:"tokenFile,omitempty" json:"tokenFile,omitempty"`
	TokenEnv  string `yaml:"tokenEnv,omitempty" json:"tokenEnv,omitempty"`
}

// File is what a person keeps of servers, in a file that is theirs alone.
type File struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Profile `yaml:"contexts"`
}

// contextPath is where the file is: DVT_CONFIG, or under XDG_CONFIG_HOME, or under ~/.config.
func contextPath() (string, error) {
	if path := os.Getenv("DVT_CONFIG"); path != "" {
		return path, nil
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // as the specification says of one that is not
		home, err := os.UserHomeDir()
		if err != nil {
			return "", cmdline.Usage(fmt.Errorf("there is no place for contexts: set DVT_CONFIG to a file: %w", err))
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "dvt", "config.yaml"), nil
}

// maxPrivate is the most that is read of a file of contexts or of a token.
const maxPrivate = 1 << 20

// private reads a file that nobody else may read or write.
func private(path string) ([]byte, error) {
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

// Read reads the file; none is an empty one.
func Read() (File, error) {
	out := File{Contexts: map[string]Profile{}}
	path, err := contextPath()
	if err != nil {
		return out, err
	}
	doc, err := private(path)
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

// Write replaces the file whole, or not at all.
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

// Find gives a context; one that is not there is an error that says which are.
func (f File) Find(name string) (Profile, error) {
	p, ok := f.Contexts[name]
	switch {
	case !ok && name == "":
		return p, &cmdline.Error{
			Status: 4, Err: errors.New(
				"no context is in use: `dvt context list` says which there are, `dvt context use` takes one")}
	case !ok:
		return p, &cmdline.Error{
			Status: 4, Err: fmt.Errorf(
				"there is no context %q: `dvt context list` says which there are, `dvt context set` makes one", name)}
	}
	return p, nil
}

// Check says what is wrong with a profile.
func (p Profile) Check() error {
	u, err := url.Parse(p.Server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return cmdline.Usage(fmt.Errorf("the server's address is like https://dvt.example.com, not %q", p.Server))
	}
	if u.User != nil {
		return cmdline.Usage(errors.New("the server's address must hold no name and password: give a token"))
	}
	if p.TokenFile != "" && p.TokenEnv != "" {
		return cmdline.Usage(errors.New("give --token-file or --token-env, not both"))
	}
	if p.TokenFile != "" {
		_, err = p.Token()
	}
	return err
}

// Token reads the token from where it is; none is no error.
func (p Profile) Token() (string, error) {
	switch {
	case p.TokenEnv != "":
		if v := os.Getenv(p.TokenEnv); v != "" {
			return v, nil
		}
		return "", cmdline.Usage(fmt.Errorf("the token should be in the environment as %s, and is not", p.TokenEnv))
	case p.TokenFile != "":
		doc, err := private(p.TokenFile)
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

// Where says where a token is.
func (p Profile) Where() string {
	switch {
	case p.TokenEnv != "":
		return "$" + p.TokenEnv
	case p.TokenFile != "":
		return p.TokenFile
	}
	return "-"
}
