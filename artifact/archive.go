package artifact

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Archive stores small documents that are written once and never replaced, in a bucket. OpenArchive makes one. It is
// safe for concurrent use.
type Archive struct{ bucket bucket }

// maxArchived is the size, in bytes, of the largest document. Write refuses a larger one, because Walk could not read
// it.
const maxArchived = 1 << 20

// OpenArchive opens the bucket at an address, as of Open; it creates the directory of a file: bucket when it is
// missing. The caller closes the archive.
func OpenArchive(ctx context.Context, address string) (*Archive, error) {
	return openArchive(ctx, address, true)
}

// ReadArchive is OpenArchive for an archive that exists. A directory that does not exist is an error, because an empty
// archive in its place would look valid.
func ReadArchive(ctx context.Context, address string) (*Archive, error) {
	return openArchive(ctx, address, false)
}

func openArchive(ctx context.Context, address string, create bool) (*Archive, error) {
	u, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme == schemeFile {
		q := u.Query()
		q.Del("create_dir")
		if create {
			q.Set("create_dir", "1")
		}
		u.RawQuery = q.Encode()
	}
	b, err := openBucket(ctx, u)
	if err != nil {
		return nil, err
	}
	return &Archive{b}, nil
}

// Close releases the bucket.
func (a *Archive) Close() error { return a.bucket.Close() }

// Write stores a document under a new name. It returns fs.ErrExist, and changes nothing, when a document of that name
// exists. A document larger than 1 MiB is an error.
func (a *Archive) Write(ctx context.Context, name string, body []byte) error {
	if len(body) > maxArchived {
		return fmt.Errorf("artifact: %s has %d bytes, more than %d", name, len(body), maxArchived)
	}
	err := a.bucket.write(ctx, name, bytes.NewReader(body),
		blob.WriterOptions{IfNotExist: true, ContentType: "application/json"})
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return fs.ErrExist
	}
	return failed("write "+name, err)
}

// Walk calls f with every document, one at a time and in the order of their names. It stops at the first error,
// including one that f returns. A document larger than 1 MiB is an error.
func (a *Archive) Walk(ctx context.Context, f func(name string, body []byte) error) error {
	for o, err := range a.bucket.objects(ctx, "", "") {
		if err != nil {
			return err
		}
		if o.Size > maxArchived {
			return fmt.Errorf("artifact: %s has %d bytes, more than %d", o.Key, o.Size, maxArchived)
		}
		body, err := a.bucket.readRange(ctx, o.Key, 0, o.Size)
		if err != nil {
			return fmt.Errorf("artifact: %s: %w", o.Key, err)
		}
		if err := f(o.Key, body); err != nil {
			return err
		}
	}
	return nil
}
