package send

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/run/lineage"
)

// openLineage posts events of OpenLineage as they are, such as to /api/v1/lineage of Marquez. The secret, when there is
// one, is the API key.
type openLineage struct {
	poster
	to  *url.URL
	key secrets
}

func newOpenLineage(cfg destination.Config, opt Options) (*openLineage, error) {
	to, err := parseAddress(cfg.URL, httpSchemes(opt)...)
	if err != nil {
		return nil, err
	}
	key, err := newSecrets(cfg, opt, 0, 1)
	if err != nil {
		return nil, err
	}
	return &openLineage{poster: newPoster(cfg, opt), to: to, key: key}, nil
}

// Send implements destination.Sender.
func (o *openLineage) Send(ctx context.Context, m destination.Message) error {
	body := []byte(m.Data)
	if m.Topic != destination.Lineage {
		var err error
		if body, err = lineage.Test(m.ID, m.At); err != nil {
			return rejected("the message is not valid JSON")
		}
	}
	if !json.Valid(body) {
		return rejected("the message is not valid JSON")
	}
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Idempotency-Key": {m.ID}}
	hidden, err := o.key.read()
	if err != nil {
		return err
	}
	for _, key := range hidden {
		header.Set("Authorization", "Bearer "+key)
	}
	return o.post(ctx, o.to, header, body, hidden...)
}

// Close implements destination.Sender.
func (o *openLineage) Close() error {
	o.client.CloseIdleConnections()
	return nil
}
