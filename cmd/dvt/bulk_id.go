package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

// lastBulk is a name for the newest bulk of the caller.
const lastBulk = "@last"

// shortBulkID is the number of characters of a short bulk id. It is the end of the id, because all ids begin alike.
const shortBulkID = 8

// longestBulkEnd is the greatest number of characters that are looked up as the end of an id.
const longestBulkEnd = 20

// maxBulks is the number of bulks of a principal that dvt keeps.
const maxBulks = 50

// bulkID returns the id of the caller's bulk that ends with given, or that a name stands for. If none matches, given is
// returned, and the command reports the unknown bulk itself. Several matches are a usage error.
func (s *session) bulkID(ctx context.Context, given string) (string, error) {
	if given != lastBulk && (len(given) < shortestRunID || len(given) > longestBulkEnd) {
		return given, nil
	}
	size := maxBulks
	out, err := client.ListBulks(ctx, s.client, &size, nil)
	if err != nil {
		return "", cmdline.Failure(err)
	}
	var found []string
	for _, e := range out.Bulks.Edges {
		id := e.Node.Id
		switch {
		case id == given, given == lastBulk: // the newest is the first
			return id, nil
		case strings.HasSuffix(id, given):
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return given, nil
	case 1:
		return found[0], nil
	}
	return "", cmdline.Usage(fmt.Errorf("%d bulks end with %s:\n  %s", len(found), given, strings.Join(found, "\n  ")))
}

// shortBulk returns the short id of a bulk.
func (s *session) shortBulk(id string) string {
	if s.whole() || !s.display.IsTerminal() {
		return id
	}
	return id[max(0, len(id)-shortBulkID):]
}
