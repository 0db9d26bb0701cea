// Package repo holds the repository to its own rules: layers, dependencies, sizes, documentation. It has only tests.
package repo

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/prewarm-dev/prewarm"

// tree is every file of the repository, by its path from the root; not what is built into it.
func tree(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".bin", "integration/testdata/cache"}, p):
			return fs.SkipDir
		case d.Type().IsRegular():
			files = append(files, filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// source is one Go file.
type source struct {
	path  string
	text  []byte
	ast   *ast.File
	lines func(ast.Node) int
}

// sources is every Go file of both modules that is written by hand.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, p := range tree(t) {
		if path.Ext(p) != ".go" {
			continue
		}
		if s := parse(t, p, read(t, p)); !ast.IsGenerated(s.ast) {
			out = append(out, s)
		}
	}
	return out
}

func parse(t *testing.T, name string, text []byte) source {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{path: name, text: text, ast: f, lines: func(n ast.Node) int {
		return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
	}}
}

// test says whether a file is a test or supports tests; the rest is shipped.
func (s source) test() bool {
	return strings.HasSuffix(s.path, "_test.go") || strings.HasPrefix(s.path, "integration/") ||
		path.Base(path.Dir(s.path)) == "critest"
}

// size is the file's length in lines.
func (s source) size() int { return bytes.Count(s.text, []byte("\n")) }

// imports gives the names under which the file imports a package; none where it does not.
func (s source) imports(pkg string) string {
	for _, i := range s.ast.Imports {
		if strings.Trim(i.Path.Value, `"`) != pkg {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path.Base(pkg)
	}
	return ""
}

// uses lists, in order, where the file names pkg.name.
func (s source) uses(pkg, name string) []ast.Node {
	local := s.imports(pkg)
	if local == "" {
		return nil
	}
	var out []ast.Node
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if isSelector(n, local, name) {
			out = append(out, n)
		}
		return true
	})
	return out
}

func isSelector(n ast.Node, x, name string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == x
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// run gives what a program prints; the test ends where it fails.
func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	return out
}

// refuse fails the test once for every fault.
func refuse(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}
