package testserver

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// respValue is one value of the Redis protocol, version 2 or 3, with its encoded bytes.
type respValue struct {
	kind  byte
	raw   []byte
	items []string // texts of the elements of an array or a push, "" for other elements
	text  string
}

// readRESP reads one complete value.
func readRESP(r *bufio.Reader) (respValue, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return respValue{}, err
	}
	if len(line) < 3 {
		return respValue{}, fmt.Errorf("testserver: Redis sent %q", line)
	}
	v := respValue{kind: line[0], raw: line, text: string(line[1 : len(line)-2])}
	parts := 1
	switch v.kind {
	case '$', '=', '!':
		return v, v.readText(r)
	case '*', '>', '~':
	case '%', '|':
		parts = 2
	default:
		return v, nil
	}
	n, err := strconv.Atoi(v.text)
	if err != nil {
		return v, fmt.Errorf("testserver: Redis sent %q: %w", line, err)
	}
	v.text = ""
	for range n * parts { // none for -1, which is RESP 2's null
		item, err := readRESP(r)
		if err != nil {
			return v, err
		}
		v.raw, v.items = append(v.raw, item.raw...), append(v.items, item.text)
	}
	return v, nil
}

func (v *respValue) readText(r *bufio.Reader) error {
	n, err := strconv.Atoi(v.text)
	if err != nil {
		return fmt.Errorf("testserver: Redis sent %q: %w", v.raw, err)
	}
	v.text = ""
	if n < 0 {
		return nil
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	v.raw, v.text = append(v.raw, body...), string(body[:n])
	return nil
}
