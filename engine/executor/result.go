package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dvt-engine/dvt/run"
)

const (
	maxValueBytes   = 16 << 10 // of a result in an event; a larger one becomes an artifact
	maxPreviewBytes = 4 << 10  // of the beginning of such a result, in the event
	maxTokenBytes   = 64 << 20 // of one value of a document that is redacted as a stream

	// resultFile is the name of the artifact with a large result.
	resultFile = "step-result"
)

// largeResult is the result in an event when the whole one is an artifact.
type largeResult struct {
	Artifact  string `json:"artifact"` // its URI
	SizeBytes int64  `json:"sizeBytes"`
	SHA256    string `json:"sha256"`
	Preview   string `json:"preview"` // the beginning of its text
}

// keepResult returns the result for the event of an execution. It keeps a result that is too large for an event, or is
// not JSON, as an artifact, and returns its reference.
func (h *host) keepResult(ctx context.Context, v json.RawMessage) (json.RawMessage, []run.ArtifactRef, error) {
	isJSON := json.Valid(v)
	if len(v) == 0 || len(v) <= maxValueBytes && isJSON {
		return v, nil, nil
	}
	name := resultFile + ".json"
	if isJSON {
		v = redactJSON(h.out.redact, v)
	} else {
		name, v = resultFile+".txt", json.RawMessage(h.out.redact.Replace(string(v)))
	}
	ref, err := h.Keep(ctx, run.KindCustom, name, v)
	if err != nil {
		return nil, nil, err
	}
	if isJSON {
		ref.ContentType = "application/json"
	}
	value, err := json.Marshal(largeResult{Artifact: ref.URI, SizeBytes: ref.SizeBytes, SHA256: ref.SHA256,
		Preview: previewOf(v)})
	return value, []run.ArtifactRef{ref}, err
}

// previewOf returns the beginning of a result, of at most maxPreviewBytes as a JSON string.
func previewOf(v []byte) string {
	for most := maxPreviewBytes; ; most /= 2 {
		text := strings.ToValidUTF8(string(v[:min(most, len(v))]), "")
		if quoted, err := json.Marshal(text); err == nil && len(quoted) <= maxPreviewBytes {
			return text
		}
	}
}

var errNotJSON = errors.New("it is not a JSON document")

// redactJSONStream copies a JSON document and replaces secret values in its texts. It holds one text in memory, of at
// most maxTokenBytes. The copy has no white space between the values.
func redactJSONStream(redact redactor, to io.Writer, from io.Reader) error {
	in := &tokenReader{from: from, left: maxTokenBytes}
	dec := json.NewDecoder(in)
	dec.UseNumber()
	c := jsonCopy{to: to, redact: redact}
	for {
		token, err := dec.Token()
		switch {
		case errors.Is(err, errTokenSize):
			return err
		case errors.Is(err, io.EOF) && c.done && len(c.open) == 0:
			return nil
		case err != nil || c.done && len(c.open) == 0:
			return errNotJSON
		}
		in.left = maxTokenBytes
		if err := c.write(token); err != nil {
			return err
		}
	}
}

var errTokenSize = fmt.Errorf("it has a value of more than %d bytes", maxTokenBytes)

// tokenReader bounds what a decoder reads for one token.
type tokenReader struct {
	from io.Reader
	left int
}

func (r *tokenReader) Read(p []byte) (int, error) {
	if r.left < 0 {
		return 0, errTokenSize
	}
	n, err := r.from.Read(p)
	r.left -= n
	return n, err
}

// jsonCopy writes the tokens of a document.
type jsonCopy struct {
	to     io.Writer
	redact redactor
	open   []container
	done   bool // a value was written
}

// container is an object or array that is not closed.
type container struct {
	object bool
	n      int // written tokens in it, keys included
}

func (c *jsonCopy) write(token json.Token) error {
	closing, isDelim := token.(json.Delim)
	if isDelim && (closing == '}' || closing == ']') {
		c.open = c.open[:len(c.open)-1]
		_, err := io.WriteString(c.to, closing.String())
		return err
	}
	separator := ""
	if n := len(c.open); n > 0 {
		in := &c.open[n-1]
		switch {
		case in.object && in.n%2 == 1:
			separator = ":"
		case in.n > 0:
			separator = ","
		}
		in.n++
	}
	c.done = true
	if isDelim {
		c.open = append(c.open, container{object: closing == '{'})
		_, err := io.WriteString(c.to, separator+closing.String())
		return err
	}
	if text, ok := token.(string); ok {
		token = c.redact.Replace(text)
	}
	var value bytes.Buffer
	enc := json.NewEncoder(&value)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(token); err != nil {
		return errNotJSON
	}
	_, err := io.WriteString(c.to, separator+strings.TrimSuffix(value.String(), "\n"))
	return err
}
