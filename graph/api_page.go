package graph

import (
	"bytes"
	"cmp"
	_ "embed"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/run"
)

// apiPage renders the types and fields of the schema, and the error codes. Each has an anchor: `#Run`, `#Run.steps`,
// `#RUN_MOVED`. It is whole without its script, which only finds things on it, and needs no file from elsewhere.
var apiPage = template.Must(template.New("api").Funcs(template.FuncMap{
	"lines": func(text string) []string { return strings.Split(strings.TrimSpace(text), "\n\n") },
	"prose": prose,
}).Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>dvt API</title>
<link rel="stylesheet" href="/docs/api.css">
<script src="/docs/api.js" defer></script>
</head>
<body>
<p class="home"><a href="/">dvt</a> / <a href="/docs">Documentation</a></p>
<h1>dvt API</h1>
<p>GraphQL at <code>POST /graphql</code>. The schema is at <a href="/schema.graphqls">/schema.graphqls</a>. Try queries in
the <a href="/graphiql">API explorer</a>.</p>
<nav aria-label="Contents">
<p><a href="#errors">Error codes</a> · <a href="#step-errors">Error codes of steps</a></p>
{{range .Groups}}<p class="types"><strong>{{.Name}}</strong> {{range .Types}}<a href="#{{.Name}}">{{.Name}}</a> {{end}}</p>
{{end}}</nav>
<main>
{{range .Groups}}<h2>{{.Name}}</h2>
{{range .Types}}<section id="{{.Name}}">
<h3><a href="#{{.Name}}">{{.Name}}</a> <small>{{.Kind}}</small></h3>
{{range lines .Description}}<p>{{prose .}}</p>{{end}}
<dl>
{{$type := .Name}}{{range .Members}}<dt id="{{$type}}.{{.Name}}"><a href="#{{$type}}.{{.Name}}"><code>{{.Name}}{{.Arguments}}</code></a>
{{if .Type}}<code>: {{if .Link}}<a href="#{{.Link}}">{{.Type}}</a>{{else}}{{.Type}}{{end}}</code>{{end}}{{with .Deprecated}}
<em>Deprecated: {{.}}</em>{{end}}</dt>
<dd>{{range lines .Description}}<p>{{prose .}}</p>{{end}}</dd>
{{end}}</dl>
</section>
{{end}}{{end}}<h2 id="errors">Error codes</h2>
<p>The code is <code>extensions.code</code> of an error.</p>
<dl>
{{range .Codes}}<dt id="{{.Code}}"><a href="#{{.Code}}"><code>{{.Code}}</code></a>{{if .HTTPStatus}} <small>HTTP {{.HTTPStatus}}</small>{{end}}{{if .Retry}}
<small>may succeed when it is repeated</small>{{end}}</dt>
<dd><p>{{prose .Meaning}}</p><p><strong>What to do:</strong> {{prose .WhatToDo}}</p></dd>
{{end}}</dl>
<h2 id="step-errors">Error codes of steps</h2>
<p>The code of a failed attempt. Codes above occur too, for example TIMEOUT and CANCELLED.</p>
<dl>
{{range .StepCodes}}<dt id="{{.Code}}"><a href="#{{.Code}}"><code>{{.Code}}</code></a>{{if .Retry}}
<small>may succeed when it is retried</small>{{end}}</dt>
<dd><p>{{prose .Meaning}}</p><p><strong>What to do:</strong> {{prose .WhatToDo}}</p></dd>
{{end}}</dl>
</main>
</body>
</html>
`))

type apiGroup struct {
	Name  string
	Types []apiType
}

type apiType struct {
	Name, Kind, Description string
	Members                 []apiMember
}

// apiMember is a field, an input field or a value of an enum.
type apiMember struct {
	Name, Arguments, Type, Link, Description, Deprecated string
}

// APIPage returns the page of the API: each type, field, argument and comment of the schema, and each error code.
func APIPage() ([]byte, error) {
	doc, err := parser.ParseSchema(&ast.Source{Name: "schema.graphqls", Input: dvt.Schema})
	if err != nil {
		return nil, gqlerror.Wrap(err)
	}
	defined := map[string]bool{}
	for _, d := range doc.Definitions {
		defined[d.Name] = true
	}
	groups := []apiGroup{{Name: "Operations"}, {Name: "Types"}, {Name: "Inputs"}, {Name: "Enums and scalars"}}
	for _, d := range doc.Definitions {
		t := apiType{Name: d.Name, Kind: strings.ToLower(strings.ReplaceAll(string(d.Kind), "_", " ")),
			Description: d.Description}
		for _, f := range d.Fields {
			t.Members = append(t.Members, apiMemberOf(f, defined))
		}
		for _, v := range d.EnumValues {
			t.Members = append(t.Members, apiMember{Name: v.Name, Description: v.Description,
				Deprecated: deprecation(v.Directives)})
		}
		group := &groups[1]
		switch {
		case d.Name == "Query" || d.Name == "Mutation" || d.Name == "Subscription":
			group = &groups[0]
		case d.Kind == ast.InputObject:
			group = &groups[2]
		case d.Kind == ast.Enum || d.Kind == ast.Scalar:
			group = &groups[3]
		}
		group.Types = append(group.Types, t)
	}
	for _, g := range groups[1:] {
		slices.SortFunc(g.Types, func(a, b apiType) int { return cmp.Compare(a.Name, b.Name) })
	}
	table := run.CodeTable()
	slices.SortFunc(table, func(a, b run.CodeInfo) int { return cmp.Compare(a.Code, b.Code) })
	var out bytes.Buffer
	rendered := apiPage.Execute(&out, struct {
		Groups           []apiGroup
		Codes, StepCodes []run.CodeInfo
	}{groups, table, run.StepCodeTable()})
	return out.Bytes(), rendered
}

func apiMemberOf(f *ast.FieldDefinition, defined map[string]bool) apiMember {
	m := apiMember{Name: f.Name, Type: f.Type.String(), Description: f.Description, Deprecated: deprecation(f.Directives)}
	if defined[f.Type.Name()] {
		m.Link = f.Type.Name()
	}
	var arguments []string
	for _, a := range f.Arguments {
		text := a.Name + ": " + a.Type.String()
		if a.DefaultValue != nil {
			text += " = " + a.DefaultValue.String()
		}
		arguments = append(arguments, text)
	}
	if len(arguments) > 0 {
		m.Arguments = "(" + strings.Join(arguments, ", ") + ")"
	}
	return m
}

// deprecation returns the reason of @deprecated, "" for a member that is not deprecated.
func deprecation(list ast.DirectiveList) string {
	d := list.ForName("deprecated")
	if d == nil {
		return ""
	}
	if reason := d.Arguments.ForName("reason"); reason != nil {
		return reason.Value.Raw
	}
	return "no longer supported"
}

var (
	// quoted is a part of a description in backticks, or a word that may be an error code.
	quoted = regexp.MustCompile("`([^`]+)`|[A-Z][A-Z_]+[A-Z]")
	// codes are the error codes that have an entry on the page; prose links only these.
	codes = func() map[string]bool {
		out := map[string]bool{}
		for _, c := range run.CodeTable() {
			out[string(c.Code)] = true
		}
		return out
	}()
)

// prose returns a description as HTML: parts in backticks are code, and error codes are links to their entries.
func prose(text string) template.HTML {
	var out strings.Builder
	end := 0
	for _, at := range quoted.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(template.HTMLEscapeString(text[end:at[0]]))
		word := template.HTMLEscapeString(strings.Trim(text[at[0]:at[1]], "`"))
		switch {
		case codes[word]:
			out.WriteString(`<a href="#` + word + `"><code>` + word + `</code></a>`)
		case at[2] >= 0:
			out.WriteString("<code>" + word + "</code>")
		default:
			out.WriteString(word)
		}
		end = at[1]
	}
	out.WriteString(template.HTMLEscapeString(text[end:]))
	return template.HTML(out.String()) // every part is escaped above
}

// APIScript finds entries on APIPage.
//
//go:embed api.js
var APIScript []byte

// APIStyle is the style sheet of APIPage.
const APIStyle = `:root { color-scheme: light dark; background: Canvas; color: CanvasText; font: 14px/22px system-ui, sans-serif; }
body { max-width: 960px; margin: 0 auto; padding: 16px 20px 64px; overflow-wrap: anywhere; }
code { font: 13px/20px ui-monospace, monospace; }
section, dl { margin: 0 0 24px; }
dt { margin-top: 12px; }
dd { margin: 0 0 0 20px; }
dd p, section p { margin: 2px 0; }
a { color: light-dark(#0b57d0, #7db4ff); text-underline-offset: 4px; }
h1 { font-size: 24px; line-height: 32px; }
.home { margin: 0 0 16px; font-weight: 550; }
.types a { display: inline-block; margin: 0 8px 2px 0; }
:target { scroll-margin-top: 56px; box-shadow: -8px 0 0 Canvas, -11px 0 0 currentColor; }
small { opacity: 0.75; font-weight: normal; }
[hidden] { display: none; }
.find { position: sticky; top: 0; display: block; padding: 8px 0; background: Canvas; }
.find input { font: inherit; width: min(100%, 320px); }
`
