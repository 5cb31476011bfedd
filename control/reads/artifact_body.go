package reads

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/run"
)

// checkedBody reads a stored artifact and verifies it on the way. It ends at the reported size. When it was read from
// the first byte to the last, it compares the SHA-256 before it gives the last bytes, so that no reader gets altered
// content whole. The bytes of a range alone cannot be verified: readers of ranges verify what they put together.
type checkedBody struct {
	body   io.ReadSeekCloser
	size   int64
	sum    []byte // nil: the step reported none
	hash   hash.Hash
	hashed int64 // bytes from the beginning that hash has
	at     int64
}

// checkBody returns a checkedBody, which closes body. Error: artifact.ErrTorn for content of another size. Only
// reading a compressed object shows its size.
func checkBody(body io.ReadSeekCloser, ref run.ArtifactRef) (*checkedBody, error) {
	c := &checkedBody{body: body, size: ref.SizeBytes, hash: sha256.New()}
	if sum, err := hex.DecodeString(ref.SHA256); err == nil && len(sum) == sha256.Size {
		c.sum = sum
	}
	// A reference without a size and a digest says nothing about the content.
	sized := ref.SizeBytes > 0 || c.sum != nil && bytes.Equal(c.sum, c.hash.Sum(nil))
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		if sized {
			return c, nil
		}
		return nil, fmt.Errorf("control: artifact: %w", err)
	}
	if sized && size != ref.SizeBytes {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", artifact.ErrTorn, size, ref.SizeBytes)
	}
	c.size = size
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("control: artifact: %w", err)
	}
	return c, nil
}

func (c *checkedBody) Read(p []byte) (int, error) {
	left := c.size - c.at
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := c.body.Read(p[:min(int64(len(p)), left)])
	if c.hashed == c.at {
		_, _ = c.hash.Write(p[:n])
		c.hashed += int64(n)
	}
	c.at += int64(n)
	switch {
	case c.at == c.size && c.hashed == c.size && c.sum != nil && !bytes.Equal(c.sum, c.hash.Sum(nil)):
		return 0, fmt.Errorf("%w: its SHA-256 is %x instead of %x", artifact.ErrTorn, c.hash.Sum(nil), c.sum)
	case c.at == c.size:
		return n, nil // the next call gives io.EOF
	case errors.Is(err, io.EOF):
		return n, fmt.Errorf("%w: it ends after %d of %d bytes", artifact.ErrTorn, c.at, c.size)
	}
	return n, err
}

func (c *checkedBody) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return c.at, errors.New("control: artifact: seek before the beginning")
	}
	if offset == c.at {
		return offset, nil
	}
	// The end is only asked for to learn the size, so the bucket is not read for it.
	if offset < c.size {
		if _, err := c.body.Seek(offset, io.SeekStart); err != nil {
			return c.at, fmt.Errorf("control: artifact: %w", err)
		}
	}
	if offset == 0 {
		c.hash.Reset()
		c.hashed = 0
	}
	c.at = offset
	return offset, nil
}

func (c *checkedBody) Close() error { return c.body.Close() }
