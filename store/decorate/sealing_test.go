package decorate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"github.com/dvt-engine/dvt/store"
)

// carriesRow reports whether a value of a type can bring an audit row to the store.
func carriesRow(t reflect.Type) bool {
	switch {
	case t == reflect.TypeFor[store.AuditRow]():
		return true
	case t.Kind() == reflect.Slice:
		return carriesRow(t.Elem())
	case t.Kind() == reflect.Func:
		return t.NumIn() > 0 && t.In(0) == reflect.TypeFor[store.RunTx]()
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			if f.Type == reflect.TypeFor[store.AuditRow]() || f.Type == reflect.TypeFor[[]store.AuditRow]() {
				return true
			}
		}
	}
	return false
}

// A method of the store that takes audit rows and is not decorated would write names in plain text.
// contract: T165
func TestSealAudit_CoversEveryMethodThatTakesAuditRows(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "sealing.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	decorated := map[string]bool{
		"Import": true, // the store writes its rows itself, and dvt is their actor
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			decorated[f.Name.Name] = true
		}
	}
	ports := reflect.TypeFor[store.Store]()
	for m := range ports.Methods() {
		for i := range m.Type.NumIn() {
			if carriesRow(m.Type.In(i)) && !decorated[m.Name] {
				t.Errorf("SealAudit does not decorate %s, which takes audit rows", m.Name)
			}
		}
	}
}
