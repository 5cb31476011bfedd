package run

import (
	"embed"
	"io/fs"
)

//go:generate go run ./internal/shapegen

//go:embed schemas/*.schema.json
var schemas embed.FS

// Schemas returns the JSON Schemas (2020-12, formats asserted) of all events: <eventType>.schema.json for the whole
// event with its payload, and envelope.schema.json for the definitions that they share. Unknown members are allowed
// (contract T152). Draft.Validate rejects every document that its schema rejects. It also compares payloads with their
// envelope, and it rejects integers that are written with a fraction, such as 1.0.
func Schemas() fs.FS {
	sub, _ := fs.Sub(schemas, "schemas") // fails only on an invalid path
	return sub
}
