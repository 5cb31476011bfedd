package mock

import (
	"encoding/json"

	"github.com/dvt-engine/dvt/run"
)

// encode encodes a payload as JSON.
func encode(payload any) json.RawMessage {
	b, err := json.Marshal(payload)
	if err != nil {
		panic(err) // unreachable: payloads of package run always encode
	}
	return b
}

// fill decodes the payload of a draft, changes it with f and encodes it again.
func fill[P any](d *run.Draft, f func(*P)) error {
	p, err := run.PayloadOf[P](d.Payload)
	if err != nil {
		return err
	}
	f(&p)
	d.Payload = encode(p)
	return nil
}
