package graph

import (
	"context"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

var errNotBuilt = &control.Error{Code: run.CodeNotSupported, Message: "This version of dvt cannot do that yet."}

func (q queries) Service(context.Context) (*model.ServiceState, error) { return nil, errNotBuilt }

func (m mutations) FreezeTenant(context.Context, model.FreezeTenantInput) (*model.ServicePayload, error) {
	return nil, errNotBuilt
}

func (m mutations) SetEngineMode(context.Context, model.SetEngineModeInput) (*model.ServicePayload, error) {
	return nil, errNotBuilt
}

func (s subscriptions) ServiceUpdates(context.Context) (<-chan *model.ServiceState, error) {
	return nil, errNotBuilt
}
