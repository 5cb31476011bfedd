package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/subject"
)

// Times of the check for destroyed keys of actors.
const (
	// forgetEvery is the time within which a process stops using a key that was destroyed. Rows that it seals meanwhile
	// cannot be read.
	forgetEvery = 5 * time.Second
	// forgetOverlap covers differences of clocks and transactions that commit late.
	forgetOverlap = 5 * time.Minute
)

// openSubjects returns the keys of the settings that seal names in the audit; nil when there are none. The file is read
// once, when the process starts.
func openSubjects(cfg *config.Config) (*subject.Keyring, error) {
	list := keyList{list: config.Strings(cfg.SubjectKeys), file: cfg.SubjectKeysFile}
	if list.empty() {
		return nil, nil
	}
	var contents [][]byte
	if list.file != "" {
		body, err := os.ReadFile(list.file)
		if err != nil {
			return nil, fmt.Errorf("subject-keys-file: %w", err)
		}
		contents = [][]byte{body}
	}
	keys, err := subject.Parse(list.read(&contents))
	if err == nil && keys == nil {
		err = errNoKeys
	}
	if err != nil {
		return nil, fmt.Errorf("subject-keys: %w", err)
	}
	return keys, nil
}

// forgetSubjects loads the keys of actors and drops those that are destroyed later, until the returned function is
// called.
func forgetSubjects(ctx context.Context, keys *subject.Keyring, s store.SubjectKeys, log *slog.Logger) (func(), error) {
	if err := keys.Load(ctx, s); err != nil {
		return nil, err
	}
	since := time.Now().Add(-forgetOverlap)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-running.Done():
				return
			case <-time.After(forgetEvery):
			}
			next := time.Now().Add(-forgetOverlap)
			err := keys.Forget(running, s, since)
			switch {
			case err == nil:
				since = next
			case running.Err() == nil && !errors.Is(err, store.ErrUnavailable):
				log.WarnContext(running, "destroyed keys of actors were not read, so rows of erased actors may still be "+
					"sealed by them; dvt tries again", slog.Any("error", err))
			}
		}
	}()
	return func() { stop(); <-done }, nil
}
