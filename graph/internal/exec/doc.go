// Package exec is the executable schema that gqlgen writes from schema.graphqls;
// nothing in it is edited by hand.
package exec
