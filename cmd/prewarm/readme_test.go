package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/agent/metrics"
	"github.com/prewarm-dev/prewarm/agent/node"
)

// readme gives the rows of a table of the README, which stands between two marks, without its head.
func readme(t *testing.T, mark string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- "+mark+" -->\n")
	table, _, ok := strings.Cut(rest, "<!-- /"+mark+" -->\n")
	rows := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	if !ok || len(rows) < 3 {
		t.Fatalf("README.md has no table between <!-- %s --> and <!-- /%s -->", mark, mark)
	}
	return rows[2:]
}

// words are those in backquotes in the first cell of each row, and so what the row is about.
func words(rows []string) []string {
	var out []string
	for _, row := range rows {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

func TestReadmeHasEveryFlag(t *testing.T) {
	t.Parallel()
	var code []string
	flag := regexp.MustCompile(`(?m)^ +(?:(-\w), |  +)(--[a-z-]+)`)
	add := func(usages string) {
		for _, m := range flag.FindAllStringSubmatch(usages, -1) {
			for _, name := range m[1:] {
				if name != "" && name != "--help" && name != "-h" {
					code = append(code, name)
				}
			}
		}
	}
	a := &app{getenv: func(string) string { return "" }}
	root := a.root(t.Context())
	add(root.PersistentFlags().FlagUsages())
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		add(c.LocalNonPersistentFlags().FlagUsages())
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(root)
	slices.Sort(code)
	docs := words(readme(t, "flags"))
	slices.Sort(docs)
	if d := cmp.Diff(slices.Compact(code), docs); d != "" {
		t.Errorf("flags of the code (-) and of README.md (+):\n%s", d)
	}
}

func TestReadmeHasEveryMetric(t *testing.T) {
	t.Parallel()
	var code []string
	for _, d := range metrics.Docs() {
		labels := ""
		for _, l := range d.Labels {
			labels += fmt.Sprintf("`%s` ", l)
		}
		code = append(code, fmt.Sprintf("| `%s` | %s | %s | %s |", d.Name, d.Type, strings.TrimSpace(labels), d.Help))
	}
	if d := cmp.Diff(code, readme(t, "metrics")); d != "" {
		t.Errorf("metrics of the code (-) and of README.md (+):\n%s", d)
	}
}

func TestReadmeHasEveryReason(t *testing.T) {
	t.Parallel()
	docs := words(readme(t, "reasons"))
	if d := cmp.Diff(constants(t, "../../cri/errors.go", "Reason"), docs); d != "" {
		t.Errorf("reasons of the code (-) and of README.md (+):\n%s", d)
	}
}

// constants gives the values of a file's constants whose names have a prefix, in their order.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		return true
	})
	return out
}

func TestReadmeHasEverythingThatIsWritten(t *testing.T) {
	t.Parallel()
	text := strings.Join(readme(t, "writes"), "\n")
	for _, want := range []string{
		node.LabelReady + `: "true"`, node.LabelImagePrefix + "<name>: <12 hexadecimal digits", "condition `" + node.ConditionImagesReady,
		"taint `" + node.TaintKey + ":" + string(node.TaintEffect), "condition `" + node.GateImageReady, "label `" + node.LabelWarm + `: "true"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("README.md does not say that %s is written", want)
		}
	}
	if n := strings.Count(text, "| label"); n != 3 {
		t.Errorf("README.md has %d labels, the code has 3", n)
	}
}

func TestReadmeHasEveryEvent(t *testing.T) {
	t.Parallel()
	docs := words(readme(t, "events"))
	code := append(constants(t, "../../agent/events.go", "Event"), node.EventFailedOpen)
	slices.Sort(docs)
	slices.Sort(code)
	if d := cmp.Diff(code, docs); d != "" {
		t.Errorf("events of the code (-) and of README.md (+):\n%s", d)
	}
}

// The table is that of the code, and the code asks the API server for nothing else.
func TestReadmeHasEveryPermission(t *testing.T) {
	t.Parallel()
	where := map[node.PermissionScope]string{
		node.ScopeCluster: "its Node", node.ScopePlaceholders: "the placeholders' namespace", node.ScopeEvents: "namespace default",
	}
	var want, verbs []string
	for _, p := range node.Permissions() {
		group := ""
		if p.Group != "" {
			group = "." + p.Group
		}
		want = append(want, "| `"+p.Verb+"` "+p.Resource+group+" | "+where[p.Namespace]+" | "+p.For+" |")
		verbs = append(verbs, p.Verb)
	}
	if d := cmp.Diff(want, readme(t, "permissions")); d != "" {
		t.Errorf("permissions of the code (-) and of README.md (+):\n%s", d)
	}
	names := map[string]string{"Put": "update", "Post": "create", "Delete": "delete", "Patch": "patch", "Get": "get"}
	used := []string{"watch"}
	files, err := filepath.Glob("../../agent/node/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`c\.(?:api|events)\.(\w+)\(`).FindAllSubmatch(source, -1) {
			used = append(used, names[string(m[1])])
		}
	}
	slices.Sort(used)
	slices.Sort(verbs)
	if d := cmp.Diff(slices.Compact(used), slices.Compact(verbs)); d != "" {
		t.Errorf("verbs of the client (-) and of its permissions (+):\n%s", d)
	}
}
