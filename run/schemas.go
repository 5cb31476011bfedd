package run

import (
	"embed"
	"io/fs"
)

//go:generate go run ./internal/shapegen

//go:embed schemas/*.schema.json
var schemas embed.FS

// Schemas holds the JSON Schemas (2020-12, formats asserted) of all events:
// <eventType>.schema.json for the whole event, payload included, and
// envelope.schema.json for what they share. Unknown members are allowed (contract T152).
// Validate agrees with them on every document; it also compares payloads with
// their envelope and refuses numbers that are integers only by their value
// (1.0).
func Schemas() fs.FS {
	sub, _ := fs.Sub(schemas, "schemas") // fails only on an invalid path
	return sub
}
