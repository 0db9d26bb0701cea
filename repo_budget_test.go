package repo

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// The sizes that code has here, in lines. They are there to make one look: a file that is too long has two subjects.
const (
	fileMedian, fileP90, fileMax = 110, 350, 600
	funcP90, funcMax             = 45, 80
)

func TestSizes(t *testing.T) {
	t.Parallel()
	groups := map[string][]source{}
	for _, s := range sources(t) {
		if n := s.size(); n > fileMax {
			t.Errorf("%s has %d lines, at most %d fit: which two subjects has it?", s.path, n, fileMax)
		}
		switch {
		case strings.HasSuffix(s.path, "_test.go"):
		case strings.HasPrefix(s.path, "integration/"):
			groups["integration"] = append(groups["integration"], s)
		case !s.test():
			groups["shipped"] = append(groups["shipped"], s)
		}
	}
	for name, group := range groups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, faults := sizeFaults(group)
			t.Log(report)
			refuse(t, faults)
		})
	}
}

// sizeFaults measures files and functions.
func sizeFaults(group []source) (report string, faults []string) {
	var files, funcs []int
	for _, s := range group {
		files = append(files, s.size())
		for _, d := range s.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.lines(fn)
			funcs = append(funcs, n)
			if n > funcMax {
				faults = append(faults, fmt.Sprintf("%s: %s has %d lines, at most %d fit", s.path, fn.Name.Name, n, funcMax))
			}
		}
	}
	check := func(what string, got, limit int) {
		if got > limit {
			faults = append(faults, fmt.Sprintf("%s is %d lines, at most %d fit", what, got, limit))
		}
	}
	check("the median of the files", percentile(files, 50), fileMedian)
	check("the 90th percentile of the files", percentile(files, 90), fileP90)
	check("the 90th percentile of the functions", percentile(funcs, 90), funcP90)
	return fmt.Sprintf("%d files: median %d, p90 %d, max %d lines; %d functions: p90 %d, max %d lines",
		len(files), percentile(files, 50), percentile(files, 90), percentile(files, 100),
		len(funcs), percentile(funcs, 90), percentile(funcs, 100)), faults
}

// percentile is the smallest value that p per cent of the values do not exceed; 0 where there are none.
func percentile(values []int, p int) int {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return v[max(0, (len(v)*p+99)/100-1)]
}

func TestSizesPlanted(t *testing.T) {
	t.Parallel()
	body := func(lines int) string { return "func f() {\n" + strings.Repeat("\t_ = 1\n", lines-2) + "}\n" }
	group := func(texts ...string) []source {
		var out []source
		for _, text := range texts {
			out = append(out, parse(t, "planted.go", []byte("package p\n\n"+text)))
		}
		return out
	}
	small := body(10)
	cases := map[string]struct {
		group  []source
		faults int
	}{
		"good":             {group: group(small, small, small)},
		"median":           {group: group(strings.Repeat(small, 11), strings.Repeat(small, 11), small), faults: 1},
		"one long file":    {group: group(strings.Repeat(small, 36), small, small), faults: 1},
		"longest function": {group: group(body(80)+strings.Repeat(small, 10), small, small)},
		"long function":    {group: group(body(81)+strings.Repeat(small, 10), small, small), faults: 1},
		"long functions":   {group: group(body(46), body(46), body(10)), faults: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if report, got := sizeFaults(c.group); len(got) != c.faults {
				t.Errorf("%s: got %d faults, want %d: %q", report, len(got), c.faults, got)
			}
		})
	}
}

func TestTestsOutweighCode(t *testing.T) {
	t.Parallel()
	var code, tests int
	for _, s := range sources(t) {
		switch {
		case path.Dir(s.path) == ".": // tests the repository, not the code
		case s.test():
			tests += s.size()
		default:
			code += s.size()
		}
	}
	t.Logf("%d lines are shipped, %d lines test them: %.2f", code, tests, float64(tests)/float64(code))
	if tests < code {
		t.Errorf("%d lines of tests for %d lines of code: what is not tested?", tests, code)
	}
}

// TestCodeRules holds what each file may not have. The linters say the same, sooner and with a way out; here there is none.
func TestCodeRules(t *testing.T) {
	t.Parallel()
	comments := map[string][]string{}
	packages := map[string]bool{}
	for _, s := range sources(t) {
		refuse(t, codeFaults(s))
		key := path.Dir(s.path) + " package " + strings.TrimSuffix(s.ast.Name.Name, "_test")
		packages[key] = true
		if s.ast.Doc != nil {
			comments[key] = append(comments[key], s.path)
		}
	}
	for p := range packages {
		if len(comments[p]) != 1 {
			t.Errorf("%s has %d package comments, one must be: %q", p, len(comments[p]), comments[p])
		}
	}
}

func codeFaults(s source) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, s.path+": "+fmt.Sprintf(format, args...)) }
	for _, d := range s.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			fault("has an init function: make a constructor")
		}
	}
	if s.imports("context") != "" {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if st, ok := n.(*ast.StructType); ok && slices.ContainsFunc(st.Fields.List, func(f *ast.Field) bool {
				return isSelector(f.Type, s.imports("context"), "Context")
			}) {
				fault("has a context in a struct: pass it")
			}
			return true
		})
	}
	program := slices.ContainsFunc([]string{"cmd/", "integration/cmd/", "integration/tools/"}, func(dir string) bool { return strings.HasPrefix(s.path, dir) })
	if !program && len(s.uses("os", "Exit")) > 0 {
		fault("ends the process: return an error")
	}
	if s.imports("testing/synctest") == "" && len(s.uses("time", "Sleep")) > 0 {
		fault("sleeps, and not in a bubble of testing/synctest: wait for an event, with a deadline")
	}
	return faults
}

func TestCodeRulesPlanted(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		path, text string
		faults     int
	}{
		"good":              {text: `import ("context"; "time"); func f(ctx context.Context, d time.Duration) {}; type t struct{ f func(context.Context) }`},
		"init":              {text: `func init() {}`, faults: 1},
		"method init":       {text: `type t struct{}; func (t) init() {}`},
		"context":           {text: `import "context"; type t struct{ ctx context.Context }`, faults: 1},
		"context, renamed":  {text: `import c "context"; var x struct{ c.Context }`, faults: 1},
		"exit":              {text: `import "os"; func f() { os.Exit(1) }`, faults: 1},
		"exit, handed on":   {text: `import "os"; var exit = os.Exit`, faults: 1},
		"exit in main":      {path: "cmd/prewarm/main.go", text: `import "os"; func main() { os.Exit(1) }`},
		"sleep":             {text: `import "time"; func f() { time.Sleep(1) }`, faults: 1},
		"sleep in a bubble": {text: `import ("testing"; "testing/synctest"; "time"); func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := codeFaults(parse(t, c.path, []byte("package p; "+c.text))); len(got) != c.faults {
				t.Errorf("got %q, want %d faults", got, c.faults)
			}
		})
	}
}
