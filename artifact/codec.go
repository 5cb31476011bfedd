package artifact

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Artifacts of these kinds of files are compressed with gzip, which every client of HTTP understands by the object's
// Content-Encoding. The name alone decides, so that a reader knows what may be compressed. A file that is compressed
// already would only become larger.
var compressed = []string{".json", ".jsonl", ".ndjson", ".log", ".txt", ".csv", ".tsv", ".sql", ".yml", ".yaml", ".xml",
	".md"}

func isCompressed(name string) bool {
	return slices.Contains(compressed, strings.ToLower(path.Ext(name)))
}

// contentType returns the type of an artifact by its name.
func contentType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// gzipMark is in the header of what this package compresses, as an extra field of gzip. Objects of earlier versions
// have no such header and are read as they are.
var gzipMark = []byte{'d', 'v', 1, 0, 1}

// gzipHead is the beginning of a header with gzipMark: the magic numbers of gzip, the method and the flag of an extra
// field; then come the time and two bytes that may differ.
var gzipHead = []byte{0x1f, 0x8b, 8, 4}

// gzipPrefix is the length of a header up to the end of gzipMark.
const gzipPrefix = 12 + 5

// hasMark reports whether the first bytes of an object say that this package compressed it.
func hasMark(first []byte) bool {
	return len(first) >= gzipPrefix && bytes.HasPrefix(first, gzipHead) &&
		binary.LittleEndian.Uint16(first[10:]) == uint16(len(gzipMark)) && bytes.Equal(first[12:gzipPrefix], gzipMark)
}

// compress returns a reader of the compressed form of r. The caller reads it to its end or an error, or closes it.
func compress(r io.Reader) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		z := gzip.NewWriter(in)
		z.Extra = gzipMark
		_, err := io.Copy(z, r)
		if err == nil {
			err = z.Close()
		}
		in.CloseWithError(err)
	}()
	return out
}

// isCorrupt reports whether a decompression ended because of the bytes, and not because the bucket failed.
func isCorrupt(err error) bool {
	return errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.HasPrefix(err.Error(), "flate:")
}

// Logs are compressed with zstd: it is several times faster, and only this package reads them.
var (
	packer   = must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true)))
	unpacker = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked)))
)

// maxUnpacked is the size, in bytes, of the largest piece of a log that is decompressed.
const maxUnpacked = 512 << 20

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // constant options
	}
	return v
}

// pack returns the compressed form of a part of a log, one frame of zstd with a checksum.
func pack(raw []byte) []byte { return packer.EncodeAll(raw, make([]byte, 0, len(raw)/4)) }

// unpack returns the lines of one or more frames. The result has size bytes, or the error is ErrTorn.
func unpack(stored []byte, size int64) ([]byte, error) {
	if size > maxUnpacked {
		return nil, ErrTorn
	}
	raw, err := unpacker.DecodeAll(stored, make([]byte, 0, size))
	if err != nil || int64(len(raw)) != size {
		return nil, fmt.Errorf("%w: %d bytes where %d were written", ErrTorn, len(raw), size)
	}
	return raw, nil
}
