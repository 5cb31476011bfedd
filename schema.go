// Package dvt carries what stands at the root of the repository into the
// binary: the public schema, which the server gives to whoever asks for it.
package dvt

import _ "embed"

//go:generate go tool gqlgen generate

// Schema is schema.graphqls, the public contract, word for word.
//
//go:embed schema.graphqls
var Schema string
