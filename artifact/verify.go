package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Verify returns body with a check of its length, and of its SHA-256 when it is read from the beginning to the end.
// Read returns ErrTorn instead of the last bytes when they do not fit, so that a reader never gets a whole wrong
// content without an error. sum is in hexadecimal; with "" only the length is checked. The size is in bytes. Without
// both the body is returned unchanged: old references have neither.
func Verify(body io.ReadSeekCloser, sum string, size int64) io.ReadSeekCloser {
	if sum == "" && size == 0 {
		return body
	}
	return &verifier{body: body, sum: sum, size: size, hash: sha256.New()}
}

type verifier struct {
	body io.ReadSeekCloser
	sum  string
	size int64
	hash hash.Hash
	at   int64 // position in body
	done int64 // bytes that are in hash
	torn error
}

func (v *verifier) Close() error { return v.body.Close() }

func (v *verifier) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += v.at
	case io.SeekEnd: // the size that the log names, so that nothing is read for it
		offset += v.size
	}
	at, err := v.body.Seek(offset, io.SeekStart)
	if err == nil {
		v.at = at
	}
	if v.at == 0 {
		v.hash.Reset()
		v.done = 0
	}
	return at, err
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.torn != nil {
		return 0, v.torn
	}
	n, err := v.body.Read(p)
	if v.at == v.done {
		_, _ = v.hash.Write(p[:n])
		v.done += int64(n)
	}
	v.at += int64(n)
	switch ended := errors.Is(err, io.EOF); {
	case err != nil && !ended:
		return n, err
	case v.at > v.size || ended && v.at < v.size:
		v.torn = fmt.Errorf("%w: it has %d bytes where the log says %d", ErrTorn, v.at, v.size)
	case v.at == v.size && v.done == v.size && v.sum != "" && hex.EncodeToString(v.hash.Sum(nil)) != v.sum:
		v.torn = fmt.Errorf("%w: its SHA-256 is not that of the log", ErrTorn)
	}
	if v.torn != nil {
		return 0, v.torn
	}
	return n, err
}
