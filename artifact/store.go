package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file:// buckets
	_ "gocloud.dev/blob/memblob"  // mem:// buckets
	"gocloud.dev/gcerrors"
)

// Scheme is the scheme of the URIs that Put returns: artifact:<name>. They do not contain the location of the bucket,
// so that it can be moved.
const Scheme = "artifact"

// ErrTooLarge is returned for a body above Limits.BlobBytes; nothing is stored.
var ErrTooLarge = errors.New("artifact: too large")

// Limits bound the stored data. A zero field has its default. Of an attempt that exceeds its limits the first quarter
// and the end are kept. Lines are dropped by pieces, so that one piece may exceed a limit.
type Limits struct {
	LineBytes    int           // of the text of one line; longer texts are cut and marked; 8 KiB
	AttemptLines int64         // of one logical attempt; 2,000,000
	AttemptBytes int64         // of one logical attempt as stored; 256 MiB
	BlobBytes    int64         // of one artifact; 100 MiB
	CacheBytes   int           // of cached log pieces of all attempts; 16 MiB
	Poll         time.Duration // between checks for lines of other processes; 1 s
}

func (l *Limits) fill() {
	set := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.AttemptLines, 2_000_000)
	set(&l.AttemptBytes, 256<<20)
	set(&l.BlobBytes, 100<<20)
	if l.LineBytes <= 0 {
		l.LineBytes = 8 << 10
	}
	if l.CacheBytes <= 0 {
		l.CacheBytes = 16 << 20
	}
	if l.Poll <= 0 {
		l.Poll = time.Second
	}
}

// Store keeps artifacts and logs in one bucket. It is safe for concurrent use.
type Store struct {
	bucket  *blob.Bucket
	limits  Limits
	writing [64]sync.Mutex // by attempt, so that memory does not grow with attempts
	pieces  pieceCache
	seen    lengths
	follow  followers
	probe   writeProbe
}

var (
	_ Blobs = (*Store)(nil)
	_ Logs  = (*Store)(nil)
)

// Open opens the bucket at a URL with the default Limits: file:///a/directory, which is created if it is missing, or
// mem://.
func Open(ctx context.Context, bucketURL string) (*Store, error) {
	return OpenWithLimits(ctx, bucketURL, Limits{})
}

// OpenWithLimits is Open with other Limits.
func OpenWithLimits(ctx context.Context, bucketURL string, l Limits) (*Store, error) {
	u, err := url.Parse(bucketURL)
	if err != nil {
		return nil, errBucketAddress
	}
	if u.Scheme == "file" {
		q := u.Query()
		if _, err := os.Stat(u.Path); errors.Is(err, fs.ErrNotExist) && !q.Has("create_dir") {
			return nil, fmt.Errorf("artifact: the directory %s does not exist: create it, or check that its file system is "+
				"mounted", u.Path)
		}
		q.Set("dir_file_mode", "0700")
		q.Set("metadata", "skip")
		q.Set("no_tmp_dir", "1")
		u.RawQuery = q.Encode()
	}
	bucket, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, openError(u, err)
	}
	l.fill()
	s := &Store{bucket: bucket, limits: l, seen: lengths{of: map[string]int64{}}}
	s.pieces.max = l.CacheBytes
	return s, nil
}

// errBucketAddress quotes no address, because one may hold a key.
var errBucketAddress = errors.New("artifact: the address of the bucket cannot be parsed")

// openError returns the error for a bucket that cannot be opened, without its address.
func openError(u *url.URL, err error) error {
	return fmt.Errorf("artifact: open bucket: %s", strings.ReplaceAll(err.Error(), u.String(), u.Scheme+"://…"))
}

// Close releases the bucket. Followers end with their own contexts.
func (s *Store) Close() error { return s.bucket.Close() }

// Name returns the name of an attempt's artifact: file is its base name.
func Name(id AttemptID, engineAttempt int, file string) string {
	return strings.Join([]string{id.TenantID, id.RunID, id.StepID,
		strconv.Itoa(id.LogicalAttempt), strconv.Itoa(engineAttempt), file}, "/")
}

// URI returns the URI of the artifact with that name.
func URI(name string) string { return (&url.URL{Scheme: Scheme, Opaque: escape(name)}).String() }

func escape(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// Put implements Blobs.
func (s *Store) Put(ctx context.Context, name string, body io.Reader) (uri, sum string, size int64, err error) {
	if !validName(name) {
		return "", "", 0, fmt.Errorf("artifact: %q is not a name: use relative segments, none of them . or .. only", name)
	}
	ctx, abandon := context.WithCancel(ctx)
	defer abandon() // closing the writer after abandon discards it
	w, err := s.bucket.NewWriter(ctx, blobKey(name), &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return "", "", 0, fmt.Errorf("artifact: put: %w", err)
	}
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(w, hash), io.LimitReader(body, s.limits.BlobBytes+1))
	if err == nil && size > s.limits.BlobBytes {
		err = ErrTooLarge
	}
	if err != nil {
		abandon()
		_ = w.Close()
		return "", "", 0, fmt.Errorf("artifact: put: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", "", 0, fmt.Errorf("artifact: put: %w", err)
	}
	return URI(name), hex.EncodeToString(hash.Sum(nil)), size, nil
}

// Open implements Blobs.
func (s *Store) Open(ctx context.Context, uri string) (io.ReadSeekCloser, error) {
	name, ok := nameOf(uri)
	if !ok {
		return nil, ErrNotFound
	}
	r, err := s.bucket.NewReader(ctx, blobKey(name), nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("artifact: open: %w", err)
	}
	return r, nil
}

// nameOf returns the name of the artifact with that URI.
func nameOf(uri string) (name string, ok bool) {
	escaped, ok := strings.CutPrefix(uri, Scheme+":")
	name, err := url.PathUnescape(escaped)
	return name, ok && err == nil && validName(name)
}

func blobKey(name string) string { return "artifacts/" + name }

func validName(name string) bool {
	return name != "" && name != "." && name[0] != '/' && path.Clean(name) == name &&
		name != ".." && !strings.HasPrefix(name, "../")
}

// prefix returns the prefix of an attempt's log in the bucket.
func (id AttemptID) prefix() (string, error) {
	for _, part := range []string{id.TenantID, id.RunID, id.StepID} {
		if part == "" || part[0] == '.' || strings.ContainsAny(part, "/\\") {
			return "", fmt.Errorf("artifact: %q does not name a log", part)
		}
	}
	return fmt.Sprintf("logs/%s/%s/%s/%d/", id.TenantID, id.RunID, id.StepID, id.LogicalAttempt), nil
}

func (s *Store) lock(prefix string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(prefix))
	return &s.writing[h.Sum32()%uint32(len(s.writing))]
}
