package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the product's module.
const Module = "github.com/dvt-engine/dvt"

// Package is one Go package of the product's module, its tests left out.
type Package struct {
	Dir     string   // relative to the root, "." for the root itself
	Imports []string // sorted import paths of all files, whatever their build constraints
	Docs    []string // the files that carry a package comment
}

// Packages reads every package of the product's module among files.
func Packages(root string, files []string) ([]Package, error) {
	byDir := map[string]*Package{}
	for _, name := range files {
		if !isProductGo(name) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil,
			parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		dir := path.Dir(name)
		p := byDir[dir]
		if p == nil {
			p = &Package{Dir: dir}
			byDir[dir] = p
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			p.Imports = append(p.Imports, imported)
		}
		if f.Doc != nil && !ast.IsGenerated(f) {
			p.Docs = append(p.Docs, name)
		}
	}
	packages := make([]Package, 0, len(byDir))
	for _, p := range byDir {
		slices.Sort(p.Imports)
		p.Imports = slices.Compact(p.Imports)
		packages = append(packages, *p)
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Dir, b.Dir) })
	return packages, nil
}

// isProductGo leaves out tests, test data, and tools, whose modules are their own.
func isProductGo(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
		!strings.HasPrefix(name, "tools/") && !strings.Contains("/"+name, "/testdata/") &&
		!strings.Contains("/"+name, "/node_modules/")
}

// Internal returns the directories of the product's own packages among imports.
func (p Package) Internal() []string {
	var dirs []string
	for _, imported := range p.Imports {
		if dir, ok := strings.CutPrefix(imported, Module+"/"); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// External returns the imports that are neither the product's nor the standard library's.
func (p Package) External() []string {
	var paths []string
	for _, imported := range p.Imports {
		first, _, _ := strings.Cut(imported, "/")
		if strings.Contains(first, ".") && imported != Module && !strings.HasPrefix(imported, Module+"/") {
			paths = append(paths, imported)
		}
	}
	return paths
}

// ReadText returns the text of a file of the repository, false when it is binary.
func ReadText(root, name string) (string, bool, error) {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return "", false, err
	}
	return string(b), !slices.Contains(b[:min(len(b), 8000)], 0), nil
}
