package executor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/run"
)

// People follow the code of a failed step to its explanation, so each code of an executor has one.
func TestStepCodes_AreExplained(t *testing.T) {
	t.Parallel()
	explained := map[string]bool{}
	for _, c := range run.StepCodeTable() {
		if c.Meaning == "" || c.WhatToDo == "" {
			t.Errorf("%s has no meaning, or does not say what to do", c.Code)
		}
		explained[string(c.Code)] = true
	}
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			code, err := strconv.Unquote(lit.Value)
			if err != nil || !explained[code] {
				t.Errorf("the code %s is not explained in run.StepCodeTable (%v)", lit.Value, err)
			}
			found++
		}
		return true
	})
	if found == 0 {
		t.Error("config.go has no codes")
	}
}
