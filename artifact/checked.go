package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// checkedBody is what Check returns.
type checkedBody struct {
	body   io.ReadSeekCloser
	size   int64
	sum    []byte // nil: the step reported none
	hash   hash.Hash
	hashed int64 // bytes from the beginning that hash has
	at     int64
}

// Check returns a reader of body that compares its content with the size in bytes and the hexadecimal SHA-256 that the
// step reported. It closes body. A size of 0 with an empty or unreadable sum says nothing about the content. A read
// from the first byte to the last that finds other bytes ends with ErrTorn instead of the last bytes, so that no reader
// gets altered content whole; readers of ranges verify what they put together. Error: ErrTorn for content of another
// size. Only reading a compressed object shows its size.
func Check(body io.ReadSeekCloser, size int64, sum string) (io.ReadSeekCloser, error) {
	c := &checkedBody{body: body, size: size, hash: sha256.New()}
	if sum, err := hex.DecodeString(sum); err == nil && len(sum) == sha256.Size {
		c.sum = sum
	}
	sized := size > 0 || c.sum != nil && bytes.Equal(c.sum, c.hash.Sum(nil))
	stored, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		if sized {
			return c, nil
		}
		return nil, fmt.Errorf("artifact: %w", err)
	}
	if sized && stored != size {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", ErrTorn, stored, size)
	}
	c.size = stored
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("artifact: %w", err)
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
		return 0, fmt.Errorf("%w: its SHA-256 is %x instead of %x", ErrTorn, c.hash.Sum(nil), c.sum)
	case c.at == c.size:
		return n, nil // the next call gives io.EOF
	case errors.Is(err, io.EOF):
		return n, fmt.Errorf("%w: it ends after %d of %d bytes", ErrTorn, c.at, c.size)
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
		return c.at, errors.New("artifact: seek before the beginning")
	}
	if offset == c.at {
		return offset, nil
	}
	// The end is only asked for to learn the size, so the bucket is not read for it.
	if offset < c.size {
		if _, err := c.body.Seek(offset, io.SeekStart); err != nil {
			return c.at, fmt.Errorf("artifact: %w", err)
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
