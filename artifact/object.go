package artifact

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"gocloud.dev/blob"
)

// plainObject reads an object that is not compressed.
type plainObject struct{ *blob.Reader }

func (o *plainObject) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = failed("read", err)
	}
	return n, err
}

// gzipObject reads the content of a compressed object. Seek backwards decompresses it again from its beginning, and
// forwards what is between.
type gzipObject struct {
	stored *blob.Reader
	first  []byte // of the object, which are read already; nil after the first use
	passed int64  // bytes of the object that z has read
	z      *gzip.Reader
	at     int64 // position of z in the content
	want   int64 // position of the next Read
	most   int64 // of the content, in bytes
}

// openCompressed returns the content of an object whose name says that it may be compressed.
func openCompressed(r *blob.Reader, most int64) (io.ReadSeekCloser, error) {
	first := make([]byte, gzipPrefix)
	n, err := io.ReadFull(r, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		_ = r.Close()
		return nil, failed("read", err)
	}
	if hasMark(first[:n]) {
		return &gzipObject{stored: r, first: first, most: most}, nil
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		_ = r.Close()
		return nil, failed("read", err)
	}
	return &plainObject{r}, nil
}

func (o *gzipObject) Close() error { return o.stored.Close() }

func (o *gzipObject) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.want
	case io.SeekEnd:
		return 0, errors.New("artifact: the size of a compressed object is not known before it is read")
	}
	if offset < 0 {
		return 0, errors.New("artifact: seek before the beginning")
	}
	o.want = offset
	return offset, nil
}

func (o *gzipObject) Read(p []byte) (int, error) {
	if err := o.reach(); err != nil {
		return 0, err
	}
	n, err := o.z.Read(p)
	o.at += int64(n)
	o.want = o.at
	if o.at > o.most {
		return 0, fmt.Errorf("%w: it decompresses to more than %d bytes", ErrTorn, o.most)
	}
	return n, o.reason(err)
}

// reach moves the decompression to the position of the next Read.
func (o *gzipObject) reach() error {
	if o.z == nil || o.want < o.at {
		if err := o.restart(); err != nil {
			return err
		}
	}
	if o.want == o.at {
		return nil
	}
	n, err := io.CopyN(io.Discard, o.z, min(o.want, o.most+1)-o.at)
	o.at += n
	return o.reason(err)
}

// restart begins the decompression at the beginning of the object.
func (o *gzipObject) restart() error {
	if o.first == nil {
		if _, err := o.stored.Seek(0, io.SeekStart); err != nil {
			return failed("read", err)
		}
	}
	o.passed = 0
	z, err := gzip.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(o.first), counted{o.stored, &o.passed})))
	o.passed += int64(len(o.first))
	o.first = nil
	if err != nil {
		return o.reason(err)
	}
	z.Multistream(false)
	o.z, o.at = z, 0
	return nil
}

// counted counts what is read.
type counted struct {
	from io.Reader
	n    *int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	*c.n += int64(n)
	return n, err
}

// reason returns the error of a read: ErrTorn when the stored bytes are wrong, and the bucket's otherwise.
func (o *gzipObject) reason(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) && o.passed < o.stored.Size(): // the connection ended, not the object
		return failed("read", err)
	case isCorrupt(err):
		return fmt.Errorf("%w: it cannot be decompressed", ErrTorn)
	}
	return failed("read", err)
}
