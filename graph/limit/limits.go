// Package limit bounds what one operation, one caller and one address may ask of the GraphQL edge. Each rejection
// is an error with its own code and the limit that was exceeded.
package limit

import (
	"context"
	"fmt"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/lexer"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// Limits bound one operation and one caller. Zero values mean the defaults, which the comments below name. An operation
// that exceeds a limit gets an error with the code below; its extension `limit` is the limit.
type Limits struct {
	Depth      int // levels of fields without introspection; 15; QUERY_TOO_DEEP
	Aliases    int // with fragments expanded; 50; TOO_MANY_ALIASES
	Fields     int // with fragments expanded; 2,000; QUERY_TOO_COMPLEX
	Complexity int // fields weighted by the sizes of lists; 50,000; QUERY_TOO_COMPLEX
	Tokens     int // of a document; 10,000; QUERY_TOO_COMPLEX
	QueryBytes int // of a document; 1 MiB; QUERY_TOO_COMPLEX
	// AnswerBytes bounds the sum of the large values of one answer: plan documents, inputs, log lines, SQL of dbt and
	// payloads of events; 16 MiB; QUERY_TOO_COMPLEX. A single plan document may have 10 MiB.
	AnswerBytes int64
	Operations  int // concurrent queries and mutations of one caller on this server; 20; TOO_MANY_OPERATIONS
	// PerMinute bounds the queries and mutations of one caller on this server; 12,000. AddressPerMinute bounds the HTTP
	// requests from one address, or one /64 of IPv6; 30,000. Both: REQUEST_RATE_LIMITED.
	PerMinute, AddressPerMinute int

	BodyBytes int64 // of an HTTP request; 12 MiB, enough for a plan of 10 MiB; PLAN_TOO_LARGE
	Cached    int   // size of the cache of parsed documents, and of the one of persisted documents; 1,000
}

// WithDefaults returns l with the defaults in place of zero values.
func (l Limits) WithDefaults() Limits {
	for v, def := range map[*int]int{
		&l.Depth: 15, &l.Aliases: 50, &l.Fields: 2000, &l.Complexity: 50_000, &l.Tokens: 10_000, &l.QueryBytes: 1 << 20,
		&l.Cached:     1000,
		&l.Operations: 20, &l.PerMinute: 12_000, &l.AddressPerMinute: 30_000,
	} {
		if *v == 0 {
			*v = def
		}
	}
	if l.AnswerBytes == 0 {
		l.AnswerBytes = 16 << 20
	}
	if l.BodyBytes == 0 {
		l.BodyBytes = 12 << 20
	}
	return l
}

// Guard rejects a document that is too large before it is validated. Validation takes quadratic time, and more when
// fragments multiply, so it must never see such a document. It is safe for concurrent use.
type Guard struct {
	Limits Limits
	Known  graphql.Cache[*ast.QueryDocument] // documents that have passed validation
}

var (
	_ graphql.HandlerExtension          = Guard{}
	_ graphql.OperationParameterMutator = Guard{}
)

// ExtensionName implements graphql.HandlerExtension.
func (Guard) ExtensionName() string { return "Guard" }

// Validate implements graphql.HandlerExtension.
func (Guard) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters implements graphql.OperationParameterMutator.
func (g Guard) MutateOperationParameters(ctx context.Context, params *graphql.RawParams) *gqlerror.Error {
	if _, ok := g.Known.Get(ctx, params.Query); ok {
		return nil
	}
	if len(params.Query) > g.Limits.QueryBytes {
		return ErrorOf(run.CodeQueryTooComplex, "The document has %d bytes", len(params.Query), g.Limits.QueryBytes)
	}
	source := &ast.Source{Input: params.Query}
	if n := countTokens(source, g.Limits.Tokens); n > g.Limits.Tokens {
		return ErrorOf(run.CodeQueryTooComplex, "The document has %d tokens or more", n, g.Limits.Tokens)
	}
	doc, err := parser.ParseQuery(source)
	if err != nil {
		return nil //nolint:nilerr // the executor parses again and reports the error
	}
	return g.check(doc)
}

func (g Guard) check(doc *ast.QueryDocument) *gqlerror.Error {
	m := measurer{doc: doc, done: map[string]measure{}}
	var all measure
	for _, f := range doc.Fragments {
		all = all.add(m.fragment(f.Name))
	}
	for _, op := range doc.Operations {
		all = all.add(m.selections(op.SelectionSet))
	}
	switch {
	case all.depth > g.Limits.Depth:
		return ErrorOf(run.CodeQueryTooDeep, "The document is nested %d levels deep", all.depth, g.Limits.Depth)
	case all.aliases > g.Limits.Aliases:
		return ErrorOf(run.CodeTooManyAliases, "The document has %d aliases", all.aliases, g.Limits.Aliases)
	case all.fields > g.Limits.Fields:
		return ErrorOf(run.CodeQueryTooComplex, "The document selects %d fields", all.fields, g.Limits.Fields)
	}
	return nil
}

// ErrorOf returns an error with the code and the limit. The format takes n, as in "The document has %d bytes".
func ErrorOf(code run.Code, format string, n, limit int) *gqlerror.Error {
	message := fmt.Sprintf(format+"; at most %d are allowed.", n, limit)
	return gqlerror.WrapPath(nil, &control.Error{Code: code, Message: message, Limit: int64(limit)})
}

// countTokens counts the tokens of a document, up to one more than the limit.
func countTokens(source *ast.Source, limit int) int {
	l := lexer.New(source)
	for n := 0; ; n++ {
		if t, err := l.ReadToken(); n > limit || err != nil || t.Kind == lexer.EOF {
			return n
		}
	}
}

// measure is the size of a part of a document with its fragments expanded.
type measure struct{ depth, aliases, fields int }

func (m measure) add(o measure) measure {
	return measure{max(m.depth, o.depth), clamp(m.aliases + o.aliases), clamp(m.fields + o.fields)}
}

// clamp prevents an overflow, because nested fragments multiply the numbers.
func clamp(n int) int { return min(n, 1<<30) }

// measurer measures each fragment once, however often it is spread.
type measurer struct {
	doc  *ast.QueryDocument
	done map[string]measure
}

func (m measurer) fragment(name string) measure {
	if size, ok := m.done[name]; ok {
		return size
	}
	m.done[name] = measure{} // ends a cycle of fragments, which validation reports
	size := measure{fields: 1}
	if f := m.doc.Fragments.ForName(name); f != nil {
		size = size.add(m.selections(f.SelectionSet))
	}
	m.done[name] = size
	return size
}

func (m measurer) selections(set ast.SelectionSet) measure {
	var all measure
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			all = all.add(m.field(s))
		case *ast.InlineFragment:
			all = all.add(m.selections(s.SelectionSet)).add(measure{fields: 1})
		case *ast.FragmentSpread:
			all = all.add(m.fragment(s.Name))
		}
	}
	return all
}

func (m measurer) field(f *ast.Field) measure {
	size := m.selections(f.SelectionSet).add(measure{fields: 1})
	size.depth++
	if f.Name == "__schema" || f.Name == "__type" {
		size.depth = 1 // validation has its own limit for introspection
	}
	if f.Alias != f.Name {
		size.aliases++
	}
	return size
}
