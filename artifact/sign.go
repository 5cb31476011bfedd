package artifact

import (
	"errors"
	"time"
)

// Errors of reading and linking.
var (
	// ErrCannotSign is returned when the bucket, or this object of it, has no signed address.
	ErrCannotSign = errors.New("artifact: the bucket cannot sign addresses")
	// ErrTorn is returned for a stored object that is shorter than it was, or has other bytes.
	ErrTorn = errors.New("artifact: the stored object is torn: it is not what was written")
)

// Info describes a stored artifact.
type Info struct {
	Size                  int64 // of the content, in bytes
	ContentType, Encoding string
}

// Download says how a signed address of an artifact answers.
type Download struct {
	FileName, ContentType string
	For                   time.Duration // how long the address works
}
