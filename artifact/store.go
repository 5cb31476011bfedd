package artifact

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"gocloud.dev/blob"
)

// Scheme is the scheme of the URIs that Put returns: artifact:<name>. They do not contain the location of the bucket,
// so that it can be moved.
const Scheme = "artifact"

// Limits bound the stored data. A zero field has its default. Of an attempt that exceeds its limits the first quarter
// and the end are kept. Lines are dropped by pieces, so that one piece may exceed a limit.
type Limits struct {
	LineBytes    int   // of the text of one line; longer texts are cut and marked; 8 KiB
	AttemptLines int64 // of one logical attempt; 2,000,000
	AttemptBytes int64 // of one logical attempt before it is compressed; 256 MiB
	BlobBytes    int64 // of one artifact; 2 GiB
	// AttemptBlobs and AttemptBlobBytes bound the artifacts of one engine attempt: their number (1,001: those that an
	// event may name and the record of the try) and the stored bytes beyond which no further one is accepted (16 GiB).
	AttemptBlobs, AttemptBlobBytes int64
	CacheBytes                     int           // of cached log pieces of all attempts; 16 MiB
	Poll                           time.Duration // between checks for lines of other processes; 500 ms
}

func (l *Limits) fill() {
	set := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.AttemptLines, 2_000_000)
	set(&l.AttemptBytes, 256<<20)
	set(&l.BlobBytes, 2<<30)
	set(&l.AttemptBlobs, 1001)
	set(&l.AttemptBlobBytes, 16<<30)
	if l.LineBytes <= 0 {
		l.LineBytes = 8 << 10
	}
	if l.CacheBytes <= 0 {
		l.CacheBytes = 16 << 20
	}
	if l.Poll <= 0 {
		l.Poll = 500 * time.Millisecond
	}
}

// Store keeps artifacts and logs in one bucket. It is safe for concurrent use.
type Store struct {
	bucket  bucket
	limits  Limits
	writing [64]sync.Mutex // by attempt, so that memory does not grow with attempts
	pieces  pieceCache
	footers *lru.Cache[string, []frame] // of segments, by key
	seen    lengths
	follow  followers
	probe   writeProbe
}

// keptFooters is the number of footers that a Store caches; one takes less than 1 KiB.
const keptFooters = 1024

var (
	_ Blobs = (*Store)(nil)
	_ Logs  = (*Store)(nil)
)

// Open opens the bucket at an address with the default Limits: file:///a/directory, which must exist unless the address
// has ?create_dir=true, s3://BUCKET, gs://BUCKET, azblob://CONTAINER, or mem:// for tests. The SDK of each cloud takes
// its credentials from the environment. Open writes and deletes an object in a bucket of a cloud. It returns an error,
// which quotes no key, for an address that cannot be used and for a bucket that is missing or refuses this process; a
// bucket that does not answer is no error.
func Open(ctx context.Context, address string) (*Store, error) {
	return OpenWithLimits(ctx, address, Limits{})
}

// OpenWithLimits is Open with other Limits.
func OpenWithLimits(ctx context.Context, address string, l Limits) (*Store, error) {
	u, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	b, err := openBucket(ctx, u)
	if err != nil {
		return nil, err
	}
	if b.scheme != schemeFile && b.scheme != schemeMem {
		if err := b.check(ctx, probePrefix+rand.Text()); err != nil {
			_ = b.Close()
			return nil, err
		}
	}
	l.fill()
	s := &Store{bucket: b, limits: l, seen: lengths{of: map[string]int64{}},
		footers: must(lru.New[string, []frame](keptFooters))}
	s.pieces.max = l.CacheBytes
	return s, nil
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

// Put implements Blobs. It holds a part of the body in memory, of a fixed size. Files that compress well are stored
// compressed; sum and size are those of the body.
func (s *Store) Put(ctx context.Context, name string, body io.Reader) (uri, sum string, size int64, err error) {
	if !validName(name) {
		return "", "", 0, fmt.Errorf("artifact: %q is not a name: use relative segments, none of them . or .. only", name)
	}
	if err := s.checkRoom(ctx, name); err != nil {
		return "", "", 0, err
	}
	in := &bounded{from: body, hash: sha256.New(), most: s.limits.BlobBytes}
	options := blob.WriterOptions{ContentType: contentType(name)}
	var stored io.Reader = in
	if isCompressed(name) {
		packed := compress(in)
		defer packed.Close()
		stored, options.ContentEncoding = packed, "gzip"
	}
	if s.bucket.scheme != schemeFile {
		options.ContentDisposition = disposeAs(path.Base(name))
	}
	if err := s.bucket.write(ctx, blobKey(name), stored, options); err != nil {
		if cause := in.failed.Load(); cause != nil {
			return "", "", 0, fmt.Errorf("artifact: put: %w", *cause)
		}
		return "", "", 0, failed("put", err)
	}
	return URI(name), hex.EncodeToString(in.hash.Sum(nil)), in.size, nil
}

// bounded reads a body, hashes it and bounds it.
type bounded struct {
	from   io.Reader
	hash   hash.Hash
	size   int64
	most   int64
	failed atomic.Pointer[error] // of the body, as opposed to the bucket
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.size += int64(n)
	_, _ = b.hash.Write(p[:n])
	if b.size > b.most {
		n, err = 0, ErrTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed.Store(&err)
	}
	return n, err
}

// Open implements Blobs.
func (s *Store) Open(ctx context.Context, uri string) (io.ReadSeekCloser, error) {
	name, ok := nameOf(uri)
	if !ok {
		return nil, ErrNotFound
	}
	r, err := s.bucket.reader(ctx, blobKey(name), 0, -1)
	if err != nil {
		return nil, failed("open", err)
	}
	if !isCompressed(name) {
		return &plainObject{r}, nil
	}
	return openCompressed(r, s.limits.BlobBytes)
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
