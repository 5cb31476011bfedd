package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob:// buckets
	_ "gocloud.dev/blob/fileblob"  // file:// buckets
	_ "gocloud.dev/blob/gcsblob"   // gs:// buckets
	_ "gocloud.dev/blob/memblob"   // mem:// buckets
	_ "gocloud.dev/blob/s3blob"    // s3:// buckets
	"gocloud.dev/gcerrors"
)

// The schemes of the addresses of buckets.
const (
	schemeFile  = "file"
	schemeMem   = "mem"
	schemeS3    = "s3"
	schemeGCS   = "gs"
	schemeAzure = "azblob"
)

// parameters returns the parameters that the address of a bucket may have. None of them is a credential: those come
// from the environment, where each SDK looks for them.
func parameters(scheme string) []string {
	switch scheme {
	case schemeS3:
		return []string{"region", "endpoint", "use_path_style", "hostname_immutable", "profile", "role", "ssetype",
			"kmskeyid", "anonymous", "disable_https", "dualstack", "fips", "accelerate", "rate_limiter_capacity",
			"request_checksum_calculation", "response_checksum_validation", "prefix"}
	case schemeGCS:
		return []string{"access_id", "private_key_path", "anonymous", "universe_domain", "prefix"}
	case schemeAzure:
		return []string{"storage_account", "domain", "protocol", "cdn", "localemu", "prefix"}
	case schemeFile:
		return []string{"create_dir", "no_tmp_dir", "dir_file_mode", "metadata", "prefix"}
	case schemeMem:
		return []string{"prefix"}
	}
	return nil
}

// parseAddress parses the address of a bucket. Its errors quote neither the address nor a value, because one may hold a
// key.
func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errBucketAddress
	}
	known := parameters(u.Scheme)
	switch {
	case known == nil:
		return nil, fmt.Errorf("%w: its scheme is none of file, s3, gs, azblob and mem", errBucketAddress)
	case u.User != nil:
		return nil, fmt.Errorf("%w: it must not hold credentials; give them in the environment of the process",
			errBucketAddress)
	case u.Host == "" && u.Scheme != schemeFile && u.Scheme != schemeMem:
		return nil, fmt.Errorf("%w: it names no bucket; write %s://BUCKET", errBucketAddress, u.Scheme)
	case u.Path != "" && u.Path != "/" && u.Scheme != schemeFile:
		return nil, fmt.Errorf("%w: a folder within the bucket is given as ?prefix=FOLDER/", errBucketAddress)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errBucketAddress
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: %s:// has no parameter %q; it has %s", errBucketAddress, u.Scheme, name,
				strings.Join(known, ", "))
		}
	}
	return u, nil
}

// errBucketAddress is returned for the address of a bucket that cannot be used.
var errBucketAddress = errors.New("artifact: the address of the bucket cannot be used")

// bucket is an open bucket. It is safe for concurrent use.
type bucket struct {
	*blob.Bucket
	scheme string
	name   string // of the bucket at the service
	prefix string // of all keys, as the service knows them
}

// openBucket opens the bucket at an address. It creates the directory of a file: bucket if the address says
// create_dir; otherwise a missing directory is an error.
func openBucket(ctx context.Context, u *url.URL) (bucket, error) {
	at := *u
	if u.Scheme == schemeFile {
		q := u.Query()
		if _, err := os.Stat(u.Path); errors.Is(err, fs.ErrNotExist) && !q.Has("create_dir") {
			return bucket{}, fmt.Errorf("artifact: the directory %s does not exist: create it, or check that its file "+
				"system is mounted", u.Path)
		}
		q.Set("dir_file_mode", "0700")
		q.Set("metadata", "skip")
		q.Set("no_tmp_dir", "1")
		at.RawQuery = q.Encode()
	}
	b, err := blob.OpenBucket(ctx, at.String())
	if err != nil {
		return bucket{}, fmt.Errorf("artifact: open bucket: %s", strings.ReplaceAll(withoutQuery(err.Error()),
			at.String(), u.Scheme+"://…"))
	}
	return bucket{b, u.Scheme, u.Host, u.Query().Get("prefix")}, nil
}

// write stores what r has under a key, as a whole or not at all, also when r, the network or the disk fails in the
// middle.
func (b bucket) write(ctx context.Context, key string, r io.Reader, o blob.WriterOptions) error {
	// A writer that is closed after its context ended discards what it has.
	ctx, abandon := context.WithCancel(ctx)
	defer abandon()
	if o.ContentType == "" {
		o.ContentType = "application/octet-stream"
	}
	if b.scheme == schemeAzure {
		// The driver's writer panics when the service answers an error. Upload does not, and it commits nothing that was
		// not read to its end.
		return b.Upload(ctx, key, r, &o)
	}
	w, err := b.NewWriter(ctx, key, &o)
	if err != nil {
		return err
	}
	if _, err := io.Copy(struct{ io.Writer }{w}, r); err != nil { // the writer's own copy takes a buffer of 1 MB each time
		abandon()
		_ = w.Close()
		return err
	}
	return w.Close()
}

// reader reads an object, or a part of it, as it is stored: no client of a service may decompress it by its
// Content-Encoding, because offsets count stored bytes.
func (b bucket) reader(ctx context.Context, key string, offset, length int64) (*blob.Reader, error) {
	if b.scheme == schemeAzure {
		ctx = policy.WithHTTPHeader(ctx, http.Header{"Accept-Encoding": {"identity"}})
	}
	return b.NewRangeReader(ctx, key, offset, length, &blob.ReaderOptions{BeforeRead: func(as func(any) bool) error {
		var gcs **storage.ObjectHandle
		if as(&gcs) {
			*gcs = (*gcs).ReadCompressed(true)
		}
		return nil
	}})
}

// readRange reads length bytes from an offset, or all when length is -1. It returns fewer without an error when the
// object ends before. An answer of more bytes than asked, or than the size that it names, is ErrTorn: one without an
// end must not fill the memory.
func (b bucket) readRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	r, err := b.reader(ctx, key, offset, length)
	if err != nil {
		return nil, failed("read", err)
	}
	defer r.Close()
	if length < 0 {
		length = r.Size()
	}
	body, err := io.ReadAll(io.LimitReader(r, length+1))
	if err == nil && int64(len(body)) > length {
		err = fmt.Errorf("%w: the bucket answers more than the %d bytes that were asked", ErrTorn, length)
	}
	return body, failed("read", err)
}

// isFinal reports whether an error of a bucket will not go away by itself: it is about the address, the bucket or the
// rights, and not about a service that does not answer.
func isFinal(err error) bool {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.FailedPrecondition,
		gcerrors.Unimplemented:
		return true
	}
	if status, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok && status.HTTPStatusCode() >= 400 && status.HTTPStatusCode() < 500 {
		return status.HTTPStatusCode() != 408 && status.HTTPStatusCode() != 429
	}
	text := err.Error()
	return strings.Contains(text, "no such host") || strings.Contains(text, "get credentials") ||
		strings.Contains(text, "RESPONSE 403") || strings.Contains(text, "RESPONSE 400")
}

// checkWithin is the time within which a bucket must answer when it is opened.
const checkWithin = 20 * time.Second

// check writes, reads, lists and deletes an object. It returns an error that says which of the four the bucket refuses.
// A bucket that does not answer is no error here, so that a process starts while the service is down: its health says
// so.
func (b bucket) check(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	steps := []struct {
		what string
		do   func() error
	}{
		{"write objects", func() error { return b.write(ctx, key, strings.NewReader("dvt"), blob.WriterOptions{}) }},
		{"read objects", func() error { _, err := b.readRange(ctx, key, 0, -1); return err }},
		{"list objects", func() error {
			_, err := b.List(&blob.ListOptions{Prefix: key}).Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}},
		{"delete objects", func() error { return b.Delete(ctx, key) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			if !isFinal(err) {
				return nil
			}
			return fmt.Errorf("artifact: this process cannot %s in the bucket: %s. Check the name of the bucket, its region "+
				"and endpoint, and the credentials and rights of this process", s.what, describe(err))
		}
	}
	return nil
}
