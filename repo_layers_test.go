package repo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
)

// layer is a rule about what packages may not import. In its patterns ./ is this module; a pattern stands for a path and
// all below it, and with a $ at its end for the path alone.
type layer struct {
	// packages is one pattern: those that the rule is about.
	packages string
	// deny and allow are what they import; allow wins.
	deny, allow []string
	// deep says that what is imported by an import counts too.
	deep bool
	why  string
}

func layers() []layer {
	return []layer{
		{
			packages: "./cri", deep: true,
			deny: []string{"k8s.io", "sigs.k8s.io"}, allow: []string{"k8s.io/cri-api"},
			why: "cri knows nothing of Kubernetes; k8s.io/cri-api is the runtime's protocol",
		},
		{packages: "./cri", deep: true, deny: []string{"./agent", "./cmd"}, why: "cri is below agent and cmd"},
		{
			packages: "./agent",
			deny:     []string{"github.com/containerd", "k8s.io/cri-api", "google.golang.org/grpc"},
			why:      "cri is the only way to the runtime",
		},
		{packages: "./agent", deny: []string{"./cmd", "flag", "github.com/spf13"}, why: "cmd parses and wires; agent is told"},
		{packages: "./agent$", deny: []string{"k8s.io/client-go"}, why: "agent/node is the only way to the API server"},
		{packages: "./agent/config", deep: true, deny: []string{"./agent$", "k8s.io/client-go"}, why: "the configuration is data"},
		{packages: "./agent/status", deep: true, deny: []string{"./agent$", "k8s.io/client-go"}, why: "the state is data, with and without Kubernetes"},
		{packages: "./agent/metrics", deep: true, deny: []string{"./agent$"}, why: "agent joins its parts; a part does not know the whole"},
		{packages: "./agent/node", deep: true, deny: []string{"./agent$"}, why: "agent joins its parts; a part does not know the whole"},
		{
			packages: "./cmd/prewarm", deep: true,
			deny: []string{"testing", "github.com/google/go-cmp", "./cri/critest", "./integration"},
			why:  "test support must not reach the binary",
		},
	}
}

// golist is a package as `go list -json` tells it: without its tests.
type golist struct {
	ImportPath, Name string
	// Imports are direct; Deps has what these import, too.
	Imports, Deps []string
}

func packages(t *testing.T) []golist {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(run(t, "go", "list", "-buildvcs=false", "-json=ImportPath,Name,Imports,Deps", "./...")))
	var out []golist
	for {
		var p golist
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
}

func matches(pattern, pkg string) bool {
	if rest, ok := strings.CutPrefix(pattern, "./"); ok {
		pattern = path.Join(module, rest)
	}
	if exact, ok := strings.CutSuffix(pattern, "$"); ok {
		return pkg == exact
	}
	return pkg == pattern || strings.HasPrefix(pkg, pattern+"/")
}

func (l layer) refuses(imported string) bool {
	in := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, imported) })
	}
	return in(l.deny) && !in(l.allow)
}

// layerFaults lists the imports that break a rule, and rules that are about nothing.
func layerFaults(rules []layer, pkgs []golist) []string {
	var faults []string
	for _, rule := range rules {
		covered := 0
		for _, p := range pkgs {
			if !matches(rule.packages, p.ImportPath) {
				continue
			}
			covered++
			imports := p.Imports
			if rule.deep {
				imports = p.Deps
			}
			for _, i := range imports {
				if rule.refuses(i) {
					faults = append(faults, fmt.Sprintf("%s imports %s: %s", p.ImportPath, i, rule.why))
				}
			}
		}
		if covered == 0 {
			faults = append(faults, fmt.Sprintf("no package is %s: what is the rule about? (%s)", rule.packages, rule.why))
		}
	}
	return faults
}

func TestLayers(t *testing.T) {
	t.Parallel()
	pkgs := packages(t)
	refuse(t, layerFaults(layers(), pkgs))
	for _, p := range pkgs {
		if p.Name == "main" && p.ImportPath != module+"/cmd/prewarm" {
			t.Errorf("%s is a main package: there is one program, and its commands are files of cmd/prewarm", p.ImportPath)
		}
	}
}

// TestLayersPlanted breaks every rule once: with what it denies, imported where it must not be, and by way of another
// package where that counts.
func TestLayersPlanted(t *testing.T) {
	t.Parallel()
	plain := func(pattern string) string {
		p, _ := strings.CutSuffix(pattern, "$")
		return strings.Replace(p, "./", module+"/", 1)
	}
	for _, rule := range layers() {
		for _, denied := range rule.deny {
			t.Run(rule.packages+" "+denied, func(t *testing.T) {
				t.Parallel()
				good := golist{ImportPath: plain(rule.packages), Imports: []string{"fmt"}, Deps: []string{"fmt", "io"}}
				good.Deps = append(good.Deps, rule.allow...)
				if got := layerFaults([]layer{rule}, []golist{good}); len(got) != 0 {
					t.Errorf("refused a good package: %v", got)
				}
				direct := good
				direct.Imports = append(slices.Clone(good.Imports), plain(denied))
				direct.Deps = append(slices.Clone(good.Deps), plain(denied))
				if got := layerFaults([]layer{rule}, []golist{direct}); len(got) != 1 {
					t.Errorf("a planted import gave %q", got)
				}
				deep := good
				deep.Deps = direct.Deps
				if got := layerFaults([]layer{rule}, []golist{deep}); (len(got) == 1) != rule.deep {
					t.Errorf("a planted import of an import gave %q", got)
				}
				if got := layerFaults([]layer{rule}, nil); len(got) != 1 {
					t.Errorf("a rule about nothing gave %q", got)
				}
			})
		}
	}
}

// TestNodeCallsNoRuntime: agent/node may share cri's words, such as its reasons, but has no connection.
func TestNodeCallsNoRuntime(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test() || !strings.HasPrefix(s.path, "agent/node/") {
			continue
		}
		for _, name := range []string{"Connect", "Runtime", "Options", "PullOptions"} {
			if len(s.uses(module+"/cri", name)) > 0 {
				t.Errorf("%s uses cri.%s: agent/node knows nothing of runtimes", s.path, name)
			}
		}
	}
}
