package artifact

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"gocloud.dev/blob"
)

// errUnordered is returned for a bucket that does not list keys in their order: a directory bucket of S3, or a storage
// account with a hierarchical namespace. A walk that continues behind a position would leave out objects.
var errUnordered = errors.New("artifact: the bucket does not list its keys in their order: copy the objects to a general " +
	"purpose bucket without a hierarchical namespace and use that")

// objects gives the objects below a prefix whose keys are greater than after, in the order of the bucket: by key in the
// order of bytes, but for the kinds of buckets that errUnordered names. It ends with the first error. Objects that are
// written or deleted meanwhile may be given or not.
func (b bucket) objects(ctx context.Context, prefix, after string) iter.Seq2[*blob.ListObject, error] {
	if b.scheme == schemeFile {
		return func(yield func(*blob.ListObject, error) bool) { b.directory(ctx, prefix, after, yield) }
	}
	return func(yield func(*blob.ListObject, error) bool) {
		for list := b.List(&blob.ListOptions{Prefix: prefix}); ; {
			o, err := list.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, failed("list", err))
				return
			}
			if o.Key > after && !yield(o, nil) {
				return
			}
		}
	}
}

// firstPage is the size of the first page of a directory's list.
const firstPage = 1000

// directory gives the objects of a file: bucket, one directory after the other. The driver's own list of all levels
// follows the order of directories, in which a/1 comes before a-b/1, and so its pages leave out objects or repeat them.
// One directory is in memory. It reports whether to continue.
func (b bucket) directory(ctx context.Context, prefix, after string, yield func(*blob.ListObject, error) bool) bool {
	var level []*blob.ListObject
	for size, next := firstPage, blob.FirstPageToken; next != nil; size *= 8 { // until one page has the whole directory
		var err error
		level, next, err = b.ListPage(ctx, blob.FirstPageToken, size, &blob.ListOptions{Prefix: prefix, Delimiter: "/"})
		if err != nil {
			yield(nil, failed("list", err))
			return false
		}
	}
	slices.SortFunc(level, func(x, y *blob.ListObject) int { return cmp.Compare(x.Key, y.Key) })
	for _, o := range level {
		switch {
		case o.IsDir && o.Key < after && !strings.HasPrefix(after, o.Key): // all of it was given
		case o.IsDir:
			if !b.directory(ctx, o.Key, after, yield) {
				return false
			}
		case o.Key > after:
			if !yield(o, nil) {
				return false
			}
		}
	}
	return true
}
