package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Archive stores small documents that are written once and never replaced, in a bucket. OpenArchive makes one. It is
// safe for concurrent use.
type Archive struct{ bucket *blob.Bucket }

// maxArchived is the size, in bytes, of the largest document. Write refuses a larger one, because Walk could not read
// it.
const maxArchived = 1 << 20

// OpenArchive opens the bucket at a URL: file:///a/directory, which it creates when it is missing, or mem://. The
// caller closes the archive.
func OpenArchive(ctx context.Context, bucketURL string) (*Archive, error) {
	return openArchive(ctx, bucketURL, url.Values{"create_dir": {"1"}})
}

// ReadArchive opens the bucket only for Walk. A directory that does not exist is an error, because an empty archive
// in its place would look valid.
func ReadArchive(ctx context.Context, bucketURL string) (*Archive, error) {
	return openArchive(ctx, bucketURL, url.Values{})
}

func openArchive(ctx context.Context, bucketURL string, options url.Values) (*Archive, error) {
	u, err := url.Parse(bucketURL)
	if err != nil {
		return nil, errBucketAddress
	}
	if u.Scheme == "file" {
		maps.Copy(options, url.Values{"dir_file_mode": {"0700"}, "metadata": {"skip"}, "no_tmp_dir": {"1"}})
		u.RawQuery = options.Encode()
	}
	bucket, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, openError(u, err)
	}
	return &Archive{bucket}, nil
}

// Close releases the bucket.
func (a *Archive) Close() error { return a.bucket.Close() }

// Write stores a document under a new name. It returns fs.ErrExist, and changes nothing, when a document of that name
// exists. A document larger than 1 MiB is an error.
func (a *Archive) Write(ctx context.Context, name string, body []byte) error {
	if len(body) > maxArchived {
		return fmt.Errorf("artifact: %s has %d bytes, more than %d", name, len(body), maxArchived)
	}
	err := a.bucket.WriteAll(ctx, name, body, &blob.WriterOptions{IfNotExist: true, ContentType: "application/json"})
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return fs.ErrExist
	}
	if err != nil {
		return fmt.Errorf("artifact: write %s: %w", name, err)
	}
	return nil
}

// Walk calls f with every document, one at a time and in the order of their names. It stops at the first error,
// including one that f returns. A document larger than 1 MiB is an error.
func (a *Archive) Walk(ctx context.Context, f func(name string, body []byte) error) error {
	list := a.bucket.List(nil)
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("artifact: list: %w", err)
		}
		if o.IsDir {
			continue
		}
		if o.Size > maxArchived {
			return fmt.Errorf("artifact: %s has %d bytes, more than %d", o.Key, o.Size, maxArchived)
		}
		body, err := a.bucket.ReadAll(ctx, o.Key)
		if err != nil {
			return fmt.Errorf("artifact: read %s: %w", o.Key, err)
		}
		if err := f(o.Key, body); err != nil {
			return err
		}
	}
}
