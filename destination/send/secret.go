package send

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dvt-engine/dvt/destination"
)

const (
	maxSecretBytes = 4 << 10
	maxSecrets     = 4
)

// secrets reads the secrets of a destination each time they are needed, so that a key is rotated by a change of its
// file. It keeps no copy.
type secrets struct {
	refs      []destination.SecretRef
	lookupEnv func(string) (string, bool)
}

func newSecrets(cfg destination.Config, opt Options, least, most int) (secrets, error) {
	n := len(cfg.Secrets)
	switch {
	case n < least && least == 1:
		return secrets{}, fmt.Errorf("kind %s needs a secret", cfg.Kind)
	case n > most:
		return secrets{}, fmt.Errorf("kind %s takes at most %d secrets, not %d", cfg.Kind, most, n)
	}
	for _, ref := range cfg.Secrets {
		if (ref.File == "") == (ref.Env == "") {
			return secrets{}, errors.New("a secret names a file or a variable of the environment, one of the two")
		}
	}
	return secrets{refs: cfg.Secrets, lookupEnv: opt.LookupEnv}, nil
}

// read returns the secrets in the order of their references. Its errors name the file or the variable, never the
// content.
func (s secrets) read() ([]string, error) {
	values := make([]string, 0, len(s.refs))
	for _, ref := range s.refs {
		value, err := s.readOne(ref)
		if err != nil {
			return nil, &explainedError{err.Error()}
		}
		values = append(values, value)
	}
	return values, nil
}

func (s secrets) readOne(ref destination.SecretRef) (string, error) {
	name, read := "the file "+ref.File, readSmallFile
	if ref.Env != "" {
		name, read = "the variable "+ref.Env, s.readVariable
	}
	value, err := read(ref.File + ref.Env) // one of them is empty
	if err != nil {
		return "", fmt.Errorf("%s of a secret %w", name, err)
	}
	value = strings.TrimSpace(value)
	switch {
	case value == "":
		return "", fmt.Errorf("%s of a secret is empty", name)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("%s of a secret must hold one line and no control characters", name)
	}
	return value, nil
}

func (s secrets) readVariable(name string) (string, error) {
	value, found := s.lookupEnv(name)
	switch {
	case !found:
		return "", errors.New("is not set")
	case len(value) > maxSecretBytes:
		return "", fmt.Errorf("has more than %d bytes", maxSecretBytes)
	}
	return value, nil
}

// readSmallFile looks at the file first, because opening a named pipe would wait for a writer.
func readSmallFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", withoutPath(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	switch {
	case err != nil:
		return "", withoutPath(err)
	case len(content) > maxSecretBytes:
		return "", fmt.Errorf("has more than %d bytes", maxSecretBytes)
	}
	return string(content), nil
}

// withoutPath returns the cause, because the message already names the file.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// hide replaces the secrets in the beginning of a text that a destination wrote: some echo what they refuse. A secret
// whose rest was not read is hidden too.
func hide(text string, values ...string) string {
	for _, value := range values {
		if value == "" {
			continue
		}
		text = strings.ReplaceAll(text, value, "***")
		for n := len(value) - 1; n > 3; n-- {
			if shorter, found := strings.CutSuffix(text, value[:n]); found {
				text = shorter + "***"
				break
			}
		}
	}
	return text
}
