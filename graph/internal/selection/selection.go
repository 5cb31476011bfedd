// Package selection compiles the selections of an operation on types of package model into functions that append JSON.
// A compiled plan writes the same bytes as gqlgen. Where it cannot, it returns an error and the caller falls back on
// gqlgen: ErrUnknown for a selection that it does not support, and ErrNull for a value that the schema does not allow.
package selection

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

var (
	// ErrUnknown means that only gqlgen can render the selection, or that the value has another type than the plan.
	ErrUnknown = errors.New("selection: not supported")
	// ErrNull means that a value has a null where the schema allows none, or a number that JSON cannot express.
	ErrNull = errors.New("selection: value that the schema does not allow")
)

// Append appends an addressable value as JSON to b. After an error the returned slice has a part of the value.
type Append func(b []byte, v reflect.Value) ([]byte, error)

// Hook replaces the rendering of a list field. It gets the Append of one element and returns the Append of the field,
// which gets the object that contains the field.
type Hook func(element Append) Append

// Compiler compiles selections on the types of a schema. It is safe for concurrent use if Resolved is.
type Compiler struct {
	Schema *ast.Schema
	// Resolved reports whether a field, by the name of its type and its Go name, has a resolver. Its value is then not in
	// the struct.
	Resolved func(object, field string) bool
}

// Plan is a compiled selection. It is safe for concurrent use if its hooks are.
type Plan struct {
	of     reflect.Type
	append Append
	fields map[string]bool
}

// Append appends the selection on v, a pointer to the struct of the plan. Its errors are ErrUnknown and ErrNull.
func (p *Plan) Append(b []byte, v any) ([]byte, error) {
	of := reflect.ValueOf(v)
	if of.Type() != reflect.PointerTo(p.of) {
		return b, fmt.Errorf("%w: %s", ErrUnknown, of.Type())
	}
	if of.IsNil() {
		return b, ErrNull
	}
	return p.append(b, of.Elem())
}

// Selects reports whether a field, such as "Step.wait", is selected anywhere.
func (p *Plan) Selects(field string) bool { return p.fields[field] }

// Compile compiles the selections of a field whose value is a pointer to the struct of. The keys of hooks are a type
// and a field, such as "Run.steps". Its error is ErrUnknown.
func (c *Compiler) Compile(op *graphql.OperationContext, field graphql.CollectedField, of reflect.Type,
	hooks map[string]Hook) (*Plan, error) {
	in := &compilation{Compiler: c, op: op, hooks: hooks, fields: map[string]bool{}}
	f, err := in.object(field.Definition.Type.Name(), of, field.Selections)
	if err != nil {
		return nil, err
	}
	return &Plan{of: of, append: f, fields: in.fields}, nil
}

// compilation is the state of one compilation.
type compilation struct {
	*Compiler
	op     *graphql.OperationContext
	hooks  map[string]Hook
	fields map[string]bool
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnknown, fmt.Sprintf(format, args...))
}

// member is one entry of a JSON object.
type member struct {
	key    string // with its quotes and colon, and the comma before it
	index  int    // of the struct field; noField for a constant or a hook
	append Append // nil for a constant
}

const noField = -1

func (c *compilation) object(name string, of reflect.Type, set ast.SelectionSet) (Append, error) {
	def := c.Schema.Types[name]
	if def == nil || def.Kind != ast.Object || of.Kind() != reflect.Struct {
		return nil, unsupported("%s as %s", name, of)
	}
	var members []member
	written := map[string]bool{}
	for _, f := range graphql.CollectFields(c.op, set, append([]string{name}, def.Interfaces...)) {
		if written[f.Alias] {
			continue // gqlgen writes the first one
		}
		written[f.Alias] = true
		m, err := c.member(def, of, f)
		if err != nil {
			return nil, err
		}
		if len(members) > 0 {
			m.key = "," + m.key
		}
		members = append(members, m)
	}
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		b = append(b, '{')
		for i := range members {
			m := &members[i]
			b = append(b, m.key...)
			switch {
			case m.append == nil:
				continue
			case m.index == noField:
				b, err = m.append(b, v)
			default:
				b, err = m.append(b, v.Field(m.index))
			}
			if err != nil {
				return b, err
			}
		}
		return append(b, '}'), nil
	}, nil
}

func (c *compilation) member(def *ast.Definition, of reflect.Type, f graphql.CollectedField) (member, error) {
	m := member{key: `"` + f.Alias + `":`, index: noField}
	for _, d := range f.Directives {
		if d.Name != "skip" && d.Name != "include" {
			return m, unsupported("@%s", d.Name)
		}
	}
	if f.Name == "__typename" {
		m.key += `"` + def.Name + `"`
		return m, nil
	}
	name := def.Name + "." + f.Name
	goField, ok := structField(of, f.Name)
	if !ok || len(f.Deferrables) > 0 || len(f.Definition.Arguments) > 0 {
		return m, unsupported("%s", name)
	}
	c.fields[name] = true
	var err error
	if hook := c.hooks[name]; hook != nil {
		m.append, err = c.value(f.Definition.Type.Elem, goField.Type.Elem(), f.Selections)
		if err == nil {
			m.append = hook(m.append)
		}
		return m, err
	}
	if c.Resolved(def.Name, goField.Name) {
		return m, unsupported("%s has a resolver", name)
	}
	m.index = goField.Index[0]
	m.append, err = c.value(f.Definition.Type, goField.Type, f.Selections)
	return m, err
}

// structField finds the struct field of a field of the schema by the json tag that gqlgen generates.
func structField(of reflect.Type, name string) (reflect.StructField, bool) {
	for i := range of.NumField() {
		tag, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if tag == name {
			return of.Field(i), true
		}
	}
	return reflect.StructField{}, false
}

func (c *compilation) value(t *ast.Type, of reflect.Type, set ast.SelectionSet) (Append, error) {
	switch {
	case of.Kind() == reflect.Pointer:
		nonNull := *t
		nonNull.NonNull = true
		inner, err := c.value(&nonNull, of.Elem(), set)
		return pointer(inner, t.NonNull), err
	case t.Elem != nil:
		return c.list(t, of, set)
	}
	def := c.Schema.Types[t.NamedType]
	switch {
	case def == nil:
		return nil, unsupported("%s", t.NamedType)
	case def.Kind == ast.Object && t.NonNull:
		return c.object(t.NamedType, of, set)
	}
	return leaf(def, of, t.NonNull)
}

func pointer(inner Append, nonNull bool) Append {
	return func(b []byte, v reflect.Value) ([]byte, error) {
		switch {
		case !v.IsNil():
			return inner(b, v.Elem())
		case nonNull:
			return b, ErrNull
		}
		return append(b, "null"...), nil
	}
}

// list returns the Append of a list that is never null. A nil slice is an empty list.
func (c *compilation) list(t *ast.Type, of reflect.Type, set ast.SelectionSet) (Append, error) {
	if of.Kind() != reflect.Slice || !t.NonNull {
		return nil, unsupported("%s as %s", t, of)
	}
	element, err := c.value(t.Elem, of.Elem(), set)
	if err != nil {
		return nil, err
	}
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = element(b, v.Index(i)); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	}, nil
}
