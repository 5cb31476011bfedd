package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/url"
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

// Scheme is that of the URIs that Put returns: artifact:<name>. They say
// nothing of where the bucket lies, so a bucket may move.
const Scheme = "artifact"

// ErrTooLarge is returned for a body past Limits.BlobBytes; nothing is kept of it.
var ErrTooLarge = errors.New("artifact: too large")

// Limits bound what is kept. A zero field takes its default. Of an attempt past its
// limits the first quarter and the end are kept; as lines go by pieces, one piece may be over.
type Limits struct {
	LineBytes    int           // of one line's text, then it is cut and marked; 8 KiB
	AttemptLines int64         // of one logical attempt; 2,000,000
	AttemptBytes int64         // of one logical attempt as stored; 256 MiB
	BlobBytes    int64         // of one artifact; 100 MiB
	CacheBytes   int           // of log pieces held in memory for all attempts; 16 MiB
	Poll         time.Duration // between looks for lines that other processes wrote; 1 s
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
}

var (
	_ Blobs = (*Store)(nil)
	_ Logs  = (*Store)(nil)
)

// Open opens the bucket at a URL with the default Limits: file:///a/directory
// (made when missing) or mem://.
func Open(ctx context.Context, bucketURL string) (*Store, error) {
	return OpenWithLimits(ctx, bucketURL, Limits{})
}

// OpenWithLimits is Open with other Limits.
func OpenWithLimits(ctx context.Context, bucketURL string, l Limits) (*Store, error) {
	u, err := url.Parse(bucketURL)
	if err != nil {
		return nil, fmt.Errorf("artifact: bucket address: %w", err)
	}
	if u.Scheme == "file" {
		q := u.Query()
		q.Set("create_dir", "1")
		q.Set("dir_file_mode", "0700")
		q.Set("metadata", "skip")
		q.Set("no_tmp_dir", "1")
		u.RawQuery = q.Encode()
	}
	bucket, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("artifact: open bucket: %w", err)
	}
	l.fill()
	s := &Store{bucket: bucket, limits: l, seen: lengths{of: map[string]int64{}}}
	s.pieces.max = l.CacheBytes
	return s, nil
}

// Close lets go of the bucket. Followers end with their own contexts.
func (s *Store) Close() error { return s.bucket.Close() }

// Name is where an attempt's artifact belongs: file is its base name.
func Name(id AttemptID, engineAttempt int, file string) string {
	return strings.Join([]string{id.TenantID, id.RunID, id.StepID,
		strconv.Itoa(id.LogicalAttempt), strconv.Itoa(engineAttempt), file}, "/")
}

// URI is the address of the artifact of that name.
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
	defer abandon() // a writer closed after it is dropped instead of kept
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
func (s *Store) Open(ctx context.Context, uri string) (io.ReadCloser, error) {
	escaped, ok := strings.CutPrefix(uri, Scheme+":")
	name, err := url.PathUnescape(escaped)
	if !ok || err != nil || !validName(name) {
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

func blobKey(name string) string { return "artifacts/" + name }

func validName(name string) bool {
	return name != "" && name != "." && name[0] != '/' && path.Clean(name) == name &&
		name != ".." && !strings.HasPrefix(name, "../")
}

// prefix is where the log of an attempt lies in the bucket.
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
