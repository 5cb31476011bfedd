package postgres

import (
	"fmt"
	"strings"
)

// argument is one argument of a function of the database, of calls of type C.
type argument[C any] struct {
	name, kind string
	value      func(C) any
}

// callSQL selects columns from function, with every argument by its name.
func callSQL[C any](columns, function string, arguments []argument[C]) string {
	named := make([]string, len(arguments))
	for i, a := range arguments {
		named[i] = fmt.Sprintf("%s => $%d::%s", a.name, i+1, a.kind)
	}
	return "SELECT " + columns + " FROM " + function + "(" + strings.Join(named, ", ") + ")"
}

// valuesOf are the values of the arguments of c, in the order of callSQL.
func valuesOf[C any](arguments []argument[C], c C) []any {
	values := make([]any, len(arguments))
	for i, a := range arguments {
		values[i] = a.value(c)
	}
	return values
}
