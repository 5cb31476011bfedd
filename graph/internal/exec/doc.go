// Package exec is the executable schema that gqlgen generates from schema.graphqls. Do not edit its generated file.
package exec
