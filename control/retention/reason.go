package retention

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/store"
)

// fail counts a failure. The whole error is for the log of the server alone: it may name the address of the bucket or
// of the store, and the people of a tenant read Pass.Error.
func (p *passOf) fail(ctx context.Context, runID string, err error) {
	p.w.cfg.Logger.WarnContext(ctx, "the retention kept what it could not archive or delete; the next pass tries again",
		slog.String("tenantId", p.tenant), slog.String("runId", runID), slog.Any("error", err))
	p.out.Failed++
	p.noteLate(p.now)
	if p.out.Error == "" {
		p.out.Error = reasonOf(err)
		if runID != "" {
			p.out.Error = fmt.Sprintf("run %s: %s", runID, reasonOf(err))
		}
	}
}

// reasonOf says why something failed, in words that name no address.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errPolicy):
		return err.Error()
	case errors.Is(err, errUnlinked):
		return "the record of a cut of the audit has no link yet; the next pass continues"
	case errors.Is(err, artifact.ErrUnavailable):
		return "the bucket of artifacts does not answer, is full, or refuses dvt; operators find the reason in the log of the " +
			"server"
	case errors.Is(err, fs.ErrNotExist):
		return "its archive is missing in the bucket; operators restore the object"
	case errors.Is(err, store.ErrUnavailable):
		return "the store does not answer"
	}
	return "operators find the reason in the log of the server"
}

// errPolicy says that a version of the policy cannot be read.
var errPolicy = errors.New("the policy cannot be read")
