package run_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
)

// contract: O12
func TestCodeTable_HasEveryConstantOnce(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants []run.Code
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, v := range spec.Values {
				text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				constants = append(constants, run.Code(text))
			}
		}
		return true
	})
	var table []run.Code
	for _, info := range run.CodeTable() {
		table = append(table, info.Code)
		if info.Meaning == "" || info.WhatToDo == "" || info.HTTPStatus != 0 && (info.HTTPStatus < 400 ||
			info.HTTPStatus > 599) {
			t.Errorf("%s has meaning %q, advice %q and HTTP status %d, want texts and 0 or an error status", info.Code,
				info.Meaning, info.WhatToDo, info.HTTPStatus)
		}
	}
	if diff := cmp.Diff(constants, table); diff != "" || len(constants) == 0 {
		t.Errorf("the table differs from the constants (-code.go +table):\n%s", diff)
	}
}
