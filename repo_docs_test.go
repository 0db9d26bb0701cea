package repo

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// loopMax is how long the file with the loop may be, in lines: a newcomer reads it first.
const loopMax = 120

// TestDocsLinks follows every relative link of the documentation, to headings too.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		if path.Ext(p) == ".md" {
			refuse(t, linkFaults(p, string(read(t, p)), os.ReadFile))
		}
	}
}

func linkFaults(page, text string, readFile func(string) ([]byte, error)) []string {
	var faults []string
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		other := text
		if target != "" {
			to := filepath.FromSlash(path.Join(path.Dir(page), target))
			if info, err := os.Stat(to); err == nil && info.IsDir() {
				continue
			}
			b, err := readFile(to)
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s links to %s: %v", page, m[1], err))
				continue
			}
			other = string(b)
		}
		if anchor != "" && !slices.Contains(anchors(other), anchor) {
			faults = append(faults, fmt.Sprintf("%s links to %s: no such heading", page, m[1]))
		}
	}
	return faults
}

// anchors are the names of a page's headings, as GitHub makes them.
func anchors(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllStringSubmatch(text, -1) {
		a := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(a, " ", "-"))
	}
	return out
}

func TestDocsLinksPlanted(t *testing.T) {
	t.Parallel()
	files := func(name string) ([]byte, error) {
		if name == filepath.FromSlash("docs/there.md") {
			return []byte("# It is `there`!\n"), nil
		}
		return nil, os.ErrNotExist
	}
	cases := map[string]int{
		"[a](https://example.com/gone) [b](#me) [c](there.md) [d](there.md#it-is-there)": 0,
		"[a](gone.md)":         1,
		"[a](there.md#gone)":   1,
		"[a](#gone)":           1,
		"[a](../docs/gone.md)": 1,
	}
	for text, want := range cases {
		if got := linkFaults("docs/page.md", "# Me\n"+text, files); len(got) != want {
			t.Errorf("%s: got %q, want %d faults", text, got, want)
		}
	}
}

// TestDocsPromises: what the README tells a person to do first is there, and leads to the loop.
func TestDocsPromises(t *testing.T) {
	t.Parallel()
	readme := string(read(t, "README.md"))
	for _, want := range []string{"make demo", "make test", "CONTRIBUTING.md"} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md does not name %s", want)
		}
	}
	first := strings.Join(strings.SplitN(readme, "\n", 41)[:40], "\n")
	loop := regexp.MustCompile(`The loop is \[[^\]]+\]\(([^)]+\.go)\)`).FindStringSubmatch(first)
	if loop == nil {
		t.Fatal("the first screen of README.md does not say: The loop is [file](file)")
	}
	if n := bytes.Count(read(t, loop[1]), []byte("\n")); n > loopMax {
		t.Errorf("%s, the loop, has %d lines, at most %d fit", loop[1], n, loopMax)
	}
}

// targets are those of the Makefiles that have a text for `make help`, with that text, and those that are phony.
func targets(t *testing.T) (documented map[string]string, phony []string) {
	t.Helper()
	documented = map[string]string{}
	for _, p := range tree(t) {
		if p != "Makefile" && path.Ext(p) != ".mk" {
			continue
		}
		text := string(read(t, p))
		for _, m := range regexp.MustCompile(`(?m)^([\w-]+):[^=].*?## (.+)$`).FindAllStringSubmatch(text, -1) {
			documented[m[1]] = m[2]
		}
		for _, m := range regexp.MustCompile(`(?m)^\.PHONY:(.*)$`).FindAllStringSubmatch(text, -1) {
			phony = append(phony, strings.Fields(m[1])...)
		}
	}
	return documented, phony
}

func TestDocsMakeHelp(t *testing.T) {
	t.Parallel()
	documented, phony := targets(t)
	lines := strings.Split(strings.TrimRight(string(run(t, "make", "--no-print-directory")), "\n"), "\n")
	if len(lines) != len(documented) {
		t.Errorf("make help shows %d lines for %d targets with a text", len(lines), len(documented))
	}
	column := -1
	for target, text := range documented {
		if !slices.Contains(phony, target) {
			t.Errorf("%s has a text, but is not .PHONY", target)
		}
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  "+target+" ") && strings.HasSuffix(l, " "+text) })
		if i < 0 {
			t.Errorf("make help does not show %q %q", target, text)
			continue
		}
		if at := len(lines[i]) - len(text); column < 0 {
			column = at
		} else if at != column {
			t.Errorf("make help: the text of %s is not aligned", target)
		}
	}
	for want := range strings.FieldsSeq("help build verify test e2e demo lab tools-runtime tools fuzz bench") {
		if documented[want] == "" {
			t.Errorf("the Makefile has no %s with a text", want)
		}
	}
}

// TestDocsMakeTargets: what a page or .ci/run says to make can be made.
func TestDocsMakeTargets(t *testing.T) {
	t.Parallel()
	documented, _ := targets(t)
	said := regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z0-9-]*)")
	for _, p := range tree(t) {
		if path.Ext(p) != ".md" && path.Dir(p) != ".ci" {
			continue
		}
		for _, m := range said.FindAllStringSubmatch(string(read(t, p)), -1) {
			if documented[m[1]] == "" {
				t.Errorf("%s says make %s: the Makefile has no such target", p, m[1])
			}
		}
	}
}

// TestTree holds what no text of the repository may say.
func TestTree(t *testing.T) {
	t.Parallel()
	for _, p := range tree(t) {
		refuse(t, textFaults(p, string(read(t, p))))
	}
}

func textFaults(p, text string) []string {
	others := func(p string) bool { return !strings.HasPrefix(p, "repo_") } // not the tests that say what is refused
	rules := []struct {
		what, why string
		found     *regexp.Regexp
		files     func(p string) bool
	}{
		{
			"a path of one machine", "take it from the environment, or from where the program is",
			regexp.MustCompile(`(^|[^\w.])/(work|farm)/|/root/(go|\.cache)\b|/home/\w+/`), others,
		},
		{
			"a Go module proxy by its name", "which one is used is for go env to say",
			regexp.MustCompile(`(proxy|sum)\.golang\.org`), others,
		},
		{
			"a tool without a version", "another day it is another tool: pin it in go.tools.mod or integration/tools",
			regexp.MustCompile(`@(latest|master|main)\b`), func(p string) bool {
				base := path.Base(p)
				return base == "Makefile" || path.Ext(p) == ".mk" || strings.HasPrefix(p, ".ci/") || strings.HasPrefix(p, ".github/") || strings.Contains(base, "Dockerfile")
			},
		},
		{
			"something left for later", "do it now, or write an issue",
			regexp.MustCompile(`(//|#|--)\s*(TODO|FIXME|XXX)\b`), others,
		},
	}
	var faults []string
	for _, r := range rules {
		if loc := r.found.FindStringIndex(text); loc != nil && r.files(p) {
			faults = append(faults, fmt.Sprintf("%s:%d has %s: %s", p, 1+strings.Count(text[:loc[0]], "\n"), r.what, r.why))
		}
	}
	return faults
}

func TestTreePlanted(t *testing.T) {
	t.Parallel()
	cases := []struct {
		path, text string
		faults     int
	}{
		{"a.go", "// see ./work/a and https://example.com/work/x", 0},
		{"a.go", `const dir = "/work/main"`, 1},
		{"a.go", "x\n/root/go/pkg", 1},
		{"README.md", "GOPROXY=https://proxy.golang.org", 1},
		{"Makefile", "go install example.com/x@latest", 1},
		{"images/Dockerfile", "RUN go install example.com/x@main", 1},
		{"README.md", "image:latest, and go install example.com/x@latest as a reader may do", 0},
		{"a.go", "ctx := context.TODO()", 0},
		{"a.go", "// TODO: later", 1},
	}
	for _, c := range cases {
		if got := textFaults(c.path, c.text); len(got) != c.faults {
			t.Errorf("%s %q: got %q, want %d faults", c.path, c.text, got, c.faults)
		}
	}
}
