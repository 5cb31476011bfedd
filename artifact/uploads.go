package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// attemptSegments is the number of segments before the file in a name that Name returns.
const attemptSegments = 5

// checkRoom returns ErrTooLarge when the engine attempt of an artifact has as many or as much as it may have. A worker
// is hostile: without a bound it fills the bucket with objects that no event names. Uploads at the same time may exceed
// the bound by their number.
func (s *Store) checkRoom(ctx context.Context, name string) error {
	if strings.Count(name, "/") != attemptSegments {
		return nil
	}
	var count, bytes int64
	for list := s.bucket.List(&blob.ListOptions{Prefix: blobKey(path.Dir(name)) + "/"}); ; {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return failed("put", err)
		}
		if o.Key == blobKey(name) { // a repetition replaces it
			continue
		}
		count++
		bytes += o.Size
		if count >= s.limits.AttemptBlobs || bytes >= s.limits.AttemptBlobBytes {
			return fmt.Errorf("%w: the attempt has %d artifacts with %d bytes already, and may have %d and %d",
				ErrTooLarge, count, bytes, s.limits.AttemptBlobs, s.limits.AttemptBlobBytes)
		}
	}
}

// RemoveUnnamed implements Remover.
func (s *Store) RemoveUnnamed(ctx context.Context, tenantID, runID string, named []string, limit int) (out Removed,
	err error) {
	prefix, err := Scope{Kind: KindArtifacts, TenantID: tenantID, RunID: runID}.prefix()
	if runID == "" { // a scope of the whole tenant
		err = errors.New("artifact: unnamed uploads are those of a run, and no run is given")
	}
	if err != nil {
		return out, err
	}
	keep := make(map[string]bool, len(named))
	for _, uri := range named {
		if name, ok := nameOf(uri); ok {
			keep[blobKey(name)] = true
		}
	}
	for list := s.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, failed("list", err)
		}
		if keep[o.Key] {
			continue
		}
		if out.Objects == int64(limit) {
			out.More = true
			return out, nil
		}
		if err := s.bucket.Delete(ctx, o.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return out, failed("remove", err)
		}
		out.Objects++
		out.Bytes += o.Size
	}
}

// AbortUploads implements Remover. Only S3 keeps the parts of an upload until somebody aborts it: Google and Azure end
// one after a week, and in a directory its file is an object.
func (s *Store) AbortUploads(ctx context.Context, tenantID string, before time.Time, limit int) (n int64, err error) {
	var client *s3.Client
	if !s.bucket.As(&client) {
		return 0, nil
	}
	for _, kind := range []Kind{KindArtifacts, KindLogs, KindArchive} {
		prefix, err := Scope{Kind: kind, TenantID: tenantID}.prefix()
		if err != nil {
			return n, err
		}
		prefix = s.bucket.prefix + prefix
		pages := s3.NewListMultipartUploadsPaginator(client, &s3.ListMultipartUploadsInput{Bucket: &s.bucket.name,
			Prefix: &prefix})
		for pages.HasMorePages() && n < int64(limit) {
			page, err := pages.NextPage(ctx)
			if err != nil && isFinal(err) {
				return n, nil
			}
			if err != nil {
				return n, failed("list uploads", err)
			}
			for _, u := range page.Uploads {
				if u.Initiated == nil || !u.Initiated.Before(before) || n == int64(limit) {
					continue
				}
				_, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.bucket.name,
					Key: u.Key, UploadId: u.UploadId})
				if err != nil && !isFinal(err) {
					return n, failed("abort an upload", err)
				}
				n++
			}
		}
	}
	return n, nil
}
