package graph

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// ShareLinks makes links that show the status of a run without sign-in, and permits them.
type ShareLinks interface {
	SetShareLinks(ctx context.Context, p authz.Principal, in admission.SetShareLinks) (admission.ModeChange, error)
	ShareRun(ctx context.Context, p authz.Principal, runID, requestID string) (runs.ShareLink, error)
}

func (m mutations) SetShareLinks(ctx context.Context, in model.SetShareLinksInput) (*model.ServicePayload, error) {
	s, err := m.control.SetShareLinks(ctx, principal(ctx), admission.SetShareLinks{
		RequestID: in.RequestID, Hours: in.Hours, Reason: in.Reason,
	})
	return servicePayload(s, err)
}

// SharePath is the path of share links; the token follows.
const SharePath = "/s/"

func (m mutations) ShareRun(ctx context.Context, in model.ShareRunInput) (*model.ShareRunPayload, error) {
	link, err := m.control.ShareRun(ctx, principal(ctx), in.RunID, in.RequestID)
	if err != nil {
		return nil, err
	}
	return &model.ShareRunPayload{Path: SharePath + link.Token, ExpiresAt: link.ExpiresAt}, nil
}
