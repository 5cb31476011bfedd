package selection

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// scalar is a supported scalar with its only supported Go type.
type scalar struct {
	of     reflect.Type
	append Append
}

// scalars maps the scalars of the schema to their Go types in package model.
var scalars = map[string]scalar{
	"String":   {reflect.TypeFor[string](), appendString},
	"ID":       {reflect.TypeFor[string](), appendString},
	"Int":      {reflect.TypeFor[int](), appendInt},
	"Seq":      {reflect.TypeFor[run.Seq](), appendInt},
	"Boolean":  {reflect.TypeFor[bool](), appendBool},
	"Float":    {reflect.TypeFor[float64](), appendFloat},
	"Time":     {reflect.TypeFor[time.Time](), appendTime},
	"Duration": {reflect.TypeFor[time.Duration](), appendDuration},
	"JSON":     {reflect.TypeFor[json.RawMessage](), appendJSON},
}

// leaf returns the Append of a scalar or an enum. nonNull says that the value is never null. A nullable value is a
// pointer to a value that is not, except JSON, which represents null itself.
func leaf(def *ast.Definition, of reflect.Type, nonNull bool) (Append, error) {
	s, known := scalars[def.Name]
	switch {
	case def.Kind == ast.Enum && of.Kind() == reflect.String &&
		of.PkgPath() == reflect.TypeFor[model.RunStatus]().PkgPath() && nonNull:
		return appendEnum, nil
	case def.Kind != ast.Scalar || !known || s.of != of || nonNull == (def.Name == "JSON"):
		return nil, unsupported("%s as %s", def.Name, of)
	}
	return s.append, nil
}

func appendString(b []byte, v reflect.Value) ([]byte, error) {
	return appendQuoted(b, v.String()), nil
}

// appendEnum uses strconv quoting, as the generated enums do.
func appendEnum(b []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendQuote(b, v.String()), nil
}

func appendInt(b []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendInt(b, v.Int(), 10), nil
}

func appendBool(b []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendBool(b, v.Bool()), nil
}

func appendFloat(b []byte, v reflect.Value) ([]byte, error) {
	f := v.Float()
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return b, ErrNull
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64), nil
}

func appendTime(b []byte, v reflect.Value) ([]byte, error) {
	return model.AppendTime(b, *v.Addr().Interface().(*time.Time)), nil
}

func appendDuration(b []byte, v reflect.Value) ([]byte, error) {
	return model.AppendDuration(b, time.Duration(v.Int())), nil
}

func appendJSON(b []byte, v reflect.Value) ([]byte, error) {
	return model.AppendJSON(b, v.Bytes()), nil
}

const hex = "0123456789ABCDEF"

// appendQuoted escapes exactly the characters that gqlgen escapes, so that the bytes are equal.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '\\' && c != '"' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '\t':
			b = append(b, `\t`...)
		case '\r':
			b = append(b, `\r`...)
		case '\n':
			b = append(b, `\n`...)
		case '\\', '"':
			b = append(b, '\\', c)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(b, s[start:]...), '"')
}
