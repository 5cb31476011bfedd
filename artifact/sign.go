package artifact

import (
	"context"
	"encoding/binary"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"time"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Info describes a stored artifact.
type Info struct {
	// Size is that of the content in bytes, Stored that of the object, which may be compressed.
	Size, Stored int64
	ContentType  string
	StoredAt     time.Time
	// Encoding is the Content-Encoding of the object: gzip, or "".
	Encoding string
}

// Stat describes an artifact, or returns ErrNotFound. It trusts the object: only Check compares it with what the step
// reported.
func (s *Store) Stat(ctx context.Context, uri string) (Info, error) {
	name, ok := nameOf(uri)
	if !ok {
		return Info{}, ErrNotFound
	}
	attrs, err := s.bucket.Attributes(ctx, blobKey(name))
	if err != nil {
		return Info{}, failed("stat", err)
	}
	out := Info{Size: attrs.Size, Stored: attrs.Size, ContentType: contentType(name), StoredAt: attrs.ModTime}
	if !isCompressed(name) || attrs.Size < gzipPrefix {
		return out, nil
	}
	first, err := s.bucket.readRange(ctx, blobKey(name), 0, gzipPrefix)
	if err != nil || !hasMark(first) {
		return out, err
	}
	// gzip ends with the size of its content.
	last, err := s.bucket.readRange(ctx, blobKey(name), attrs.Size-4, 4)
	if err != nil {
		return out, err
	}
	out.Encoding, out.Size = "gzip", int64(binary.LittleEndian.Uint32(last))
	return out, nil
}

// Download says what a signed link gives.
type Download struct {
	// FileName is the name under which a browser saves it; "" leaves the name of the artifact. ContentType is its type;
	// "" leaves that of the artifact. A bucket that does not sign such headers keeps its own.
	FileName, ContentType string
	// For is how long the link works: 15 minutes if it is 0, and at most 12 hours.
	For time.Duration
}

// Bounds of Download.For.
const (
	signedFor     = 15 * time.Minute
	signedForMost = 12 * time.Hour
)

// Sign returns a link to an artifact that works without credentials. It does not check that the artifact exists. The
// answer to the link has the header Content-Encoding: gzip when the object is compressed. Errors: ErrNotFound for a URI
// of another form; ErrCannotSign.
func (s *Store) Sign(ctx context.Context, uri string, d Download) (string, error) {
	name, ok := nameOf(uri)
	if !ok {
		return "", ErrNotFound
	}
	if d.For <= 0 {
		d.For = signedFor
	}
	link, err := s.bucket.SignedURL(ctx, blobKey(name), &blob.SignedURLOptions{
		Method: http.MethodGet, Expiry: min(d.For, signedForMost), BeforeSign: d.setHeaders,
	})
	if gcerrors.Code(err) == gcerrors.Unimplemented {
		return "", ErrCannotSign
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", ErrCannotSign, describe(err))
	}
	return link, nil
}

// setHeaders asks the bucket to answer with the headers of d. Azure has no such parameter in its driver: its objects
// carry the headers.
func (d Download) setHeaders(as func(any) bool) error {
	disposition := ""
	if d.FileName != "" {
		disposition = disposeAs(d.FileName)
	}
	var s3Input *s3.GetObjectInput
	var gcs *storage.SignedURLOptions
	switch {
	case as(&s3Input):
		if disposition != "" {
			s3Input.ResponseContentDisposition = aws.String(disposition)
		}
		if d.ContentType != "" {
			s3Input.ResponseContentType = aws.String(d.ContentType)
		}
	case as(&gcs):
		gcs.QueryParameters = url.Values{}
		if disposition != "" {
			gcs.QueryParameters.Set("response-content-disposition", disposition)
		}
		if d.ContentType != "" {
			gcs.QueryParameters.Set("response-content-type", d.ContentType)
		}
	}
	return nil
}

// disposeAs returns the Content-Disposition of a file that is saved and never shown.
func disposeAs(file string) string {
	return mime.FormatMediaType("attachment", map[string]string{"filename": file})
}
