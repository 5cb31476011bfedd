package artifact

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"regexp"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// archiveKey returns the key of an archived run in the bucket.
func archiveKey(name string) (string, error) {
	if !validName(name) {
		return "", fmt.Errorf("artifact: %q is not the name of an archived run", name)
	}
	return string(KindArchive) + "/" + name, nil
}

// PutArchived stores the archive of a run.
func (s *Store) PutArchived(ctx context.Context, name string, body io.Reader) error {
	key, err := archiveKey(name)
	if err != nil {
		return err
	}
	if err := s.bucket.write(ctx, key, body, blob.WriterOptions{ContentType: "application/gzip"}); err != nil {
		return failed("archive", err)
	}
	return nil
}

// OpenArchived opens the archive of a run; fs.ErrNotExist. A read that the bucket breaks off is ErrUnavailable.
func (s *Store) OpenArchived(ctx context.Context, name string) (io.ReadCloser, error) {
	key, err := archiveKey(name)
	if err != nil {
		return nil, err
	}
	r, err := s.bucket.NewReader(ctx, key, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, failed("archive", err)
	}
	return &plainObject{r}, nil
}

// RemoveArchived removes the archive of a run, and before it its tables, its manifest and other copies of them: objects
// whose names differ only in the hash before the first dot and in the ending. A process that was killed between the
// write of an archive and its mark leaves such copies. An archive that does not exist is no error.
func (s *Store) RemoveArchived(ctx context.Context, name string) error {
	key, err := archiveKey(name)
	if err != nil {
		return err
	}
	prefix, _, ok := cutHash(key)
	if !ok {
		return s.deleteArchived(ctx, key)
	}
	var others []string // a directory is listed once: it has the archives of a whole month
	for o, err := range s.bucket.objects(ctx, prefix, "") {
		if err != nil {
			return err
		}
		if p, _, ok := cutHash(o.Key); ok && p == prefix && o.Key != key {
			others = append(others, o.Key)
		}
	}
	for _, other := range append(others, key) {
		if err := s.deleteArchived(ctx, other); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) deleteArchived(ctx context.Context, key string) error {
	if err := s.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return failed("archive", err)
	}
	return nil
}

// RemoveCopies removes the other copies of the archive of a run, as RemoveArchived does, and keeps the archive.
func (s *Store) RemoveCopies(ctx context.Context, name string) error {
	others, err := s.Copies(ctx, name)
	if err != nil {
		return err
	}
	for _, other := range others {
		key, err := archiveKey(other)
		if err == nil {
			err = s.deleteArchived(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Copies lists the other copies of the archive of a run: objects whose names differ from name only in the hash.
func (s *Store) Copies(ctx context.Context, name string) (out []string, err error) {
	key, err := archiveKey(name)
	if err != nil {
		return nil, err
	}
	prefix, ending, ok := cutHash(key)
	if !ok {
		return nil, nil
	}
	for o, err := range s.bucket.objects(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		if p, e, ok := cutHash(o.Key); ok && p == prefix && e == ending && o.Key != key {
			out = append(out, o.Key[len(key)-len(name):])
		}
	}
	return out, nil
}

// archiveName matches the key of an archived run: what names the run, the hash, and the ending.
var archiveName = regexp.MustCompile(`^(.*-)[0-9a-f]{16}(\.[^/-]*)$`)

// cutHash returns what stands before and behind the hash in the key of an archived run.
func cutHash(key string) (prefix, ending string, ok bool) {
	m := archiveName.FindStringSubmatch(key)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}
