package repo

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// maxDependencies is how many modules the shipped binary may require directly.
const maxDependencies = 21

// dependency is why we require a module.
type dependency struct {
	why string
	// test says that only tests need it: it must not be in the binary.
	test bool
}

// dependencies is every direct requirement of go.mod.
func dependencies() map[string]dependency {
	return map[string]dependency{
		"github.com/awslabs/amazon-ecr-credential-helper/ecr-login": {why: "tokens of Amazon ECR, by AWS's own helper, where neither a secret nor the kubelet's plugin is at hand"},
		"github.com/containerd/containerd/api":                      {why: "the types of the runtime's events and content statuses, from which progress and loss are seen"},
		"github.com/containerd/containerd/v2":                       {why: "the runtime's native API: CRI says nothing of progress, leases, snapshots and pins; and its resolver, so that hosts.toml means to us what it means to the runtime"},
		"github.com/containerd/errdefs":                             {why: "tells the native API's errors apart"},
		"github.com/containerd/log":                                 {why: "silences the global logger that containerd's packages write to"},
		"github.com/containerd/platforms":                           {why: "chooses from an index as the runtime does"},
		"github.com/distribution/reference":                         {why: "reads references as the kubelet and the runtime do"},
		"github.com/google/go-cmp":                                  {why: "shows what differs when a test fails", test: true},
		"github.com/opencontainers/go-digest":                       {why: "digests as a type, and their check"},
		"github.com/opencontainers/image-spec":                      {why: "manifest, index, configuration and chain IDs by their specification"},
		"github.com/prometheus/client_golang":                       {why: "metrics in the format that everybody scrapes"},
		"github.com/spf13/cobra":                                    {why: "commands, flags, help and completion as kubectl's users know them"},
		"github.com/vbauerster/mpb/v8":                              {why: "draws several bars at once on a terminal, with resizing and no flicker"},
		"go.yaml.in/yaml/v3":                                        {why: "the configuration, with line and column of every node for error messages"},
		"golang.org/x/crypto/x509roots/fallback":                    {why: "certificates of public authorities, since the image has no system that brings them"},
		"golang.org/x/sys":                                          {why: "statfs, and in tests pseudo terminals, on every architecture alike"},
		"golang.org/x/term":                                         {why: "whether a person is watching, and how wide the terminal is"},
		"google.golang.org/grpc":                                    {why: "the transport of CRI and of the native API, and its status codes"},
		"k8s.io/api":                                                {why: "Node, Pod and Event as the API server has them"},
		"k8s.io/apimachinery":                                       {why: "selectors, label rules, patches and API errors as Kubernetes means them"},
		"k8s.io/client-go":                                          {why: "the way to the API server: credentials, watches that resume, back-off"},
		"k8s.io/cri-api":                                            {why: "CRI itself"},
	}
}

type gomod struct {
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace []struct{ Old struct{ Path string } }
}

func (m gomod) direct() []string {
	var out []string
	for _, r := range m.Require {
		if !r.Indirect {
			out = append(out, r.Path)
		}
	}
	return out
}

func TestDirectDependencies(t *testing.T) {
	t.Parallel()
	var mod gomod
	if err := json.Unmarshal(run(t, "go", "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace) > 0 {
		t.Errorf("go.mod replaces %v: go install would not build what we test", mod.Replace)
	}
	linked := strings.Fields(string(run(t, "go", "list", "-buildvcs=false", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/prewarm")))
	slices.Sort(linked)
	refuse(t, dependencyFaults(mod.direct(), slices.Compact(linked), dependencies()))
}

// dependencyFaults compares what go.mod requires and what is linked into the binary with what we have reasons for.
func dependencyFaults(direct, linked []string, known map[string]dependency) []string {
	var faults []string
	shipped := 0
	for _, d := range direct {
		k, ok := known[d]
		inBinary := slices.Contains(linked, d)
		switch {
		case !ok:
			faults = append(faults, d+": no reason stands in dependencies(); do we need it?")
		case k.why == "":
			faults = append(faults, d+": its reason is empty")
		case k.test && inBinary:
			faults = append(faults, d+": is for tests only, but linked into the binary")
		case !k.test && !inBinary:
			faults = append(faults, d+": is not linked into the binary: for tests only?")
		}
		if inBinary {
			shipped++
		}
	}
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if !slices.Contains(direct, k) {
			faults = append(faults, k+": stands in dependencies(), but go.mod does not require it directly (any more)")
		}
	}
	if shipped > maxDependencies {
		faults = append(faults, fmt.Sprintf("%d modules are required directly by the binary, at most %d may be", shipped, maxDependencies))
	}
	return faults
}

func TestDirectDependenciesPlanted(t *testing.T) {
	t.Parallel()
	known := map[string]dependency{"a": {why: "x"}, "b": {why: "x"}, "c": {why: "x", test: true}}
	many := []string{"a", "b", "c"}
	for i := range maxDependencies {
		many = append(many, fmt.Sprint("m", i))
	}
	cases := map[string]struct {
		direct, linked []string
		faults         int
	}{
		"good":          {direct: []string{"a", "b", "c"}, linked: []string{"a", "b"}},
		"unknown":       {direct: []string{"a", "b", "c", "d"}, linked: []string{"a", "b", "d"}, faults: 1},
		"stale":         {direct: []string{"a", "c"}, linked: []string{"a"}, faults: 1},
		"test shipped":  {direct: []string{"a", "b", "c"}, linked: []string{"a", "b", "c"}, faults: 1},
		"only for test": {direct: []string{"a", "b", "c"}, linked: []string{"a"}, faults: 1},
		"too many":      {direct: many, linked: slices.DeleteFunc(slices.Clone(many), func(m string) bool { return m == "c" }), faults: maxDependencies + 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := dependencyFaults(c.direct, c.linked, known); len(got) != c.faults {
				t.Errorf("got %d faults, want %d:\n%s", len(got), c.faults, strings.Join(got, "\n"))
			}
		})
	}
}
