// Package dvt embeds the public schema from the root of the repository, so that the server can send it to clients.
package dvt

import _ "embed"

//go:generate go tool gqlgen generate

// Schema is schema.graphqls, the public contract, word for word.
//
//go:embed schema.graphqls
var Schema string
