package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

const header = "apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\n"

// minimal is the shortest valid file.
const minimal = header + "images: [{name: a, reference: r.io/a:1}]\n"

func sameReference(a, b cri.Reference) bool { return a.String() == b.String() }

func reference(t *testing.T, s string) cri.Reference {
	t.Helper()
	r, err := cri.ParseReference(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parse(t *testing.T, text string) *config.Configuration {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	return c
}

func TestLoadReadsEveryField(t *testing.T) {
	t.Parallel()
	got, err := config.Load("testdata/complete.yaml")
	if err != nil {
		t.Fatal(err)
	}
	halfDay := config.Duration{Duration: 12 * time.Hour}
	want := &config.Configuration{
		APIVersion: "prewarm.dev/v1alpha1",
		Kind:       "PrewarmConfiguration",
		Images: []config.Image{
			{
				Name:      "sagemaker-distribution-cpu",
				Reference: reference(t, "public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu"),
				Nodes:     config.Nodes{Accelerator: config.AcceleratorNone},
				Required:  true, Pin: true, RefreshInterval: halfDay,
			},
			{
				Name:      "sagemaker-distribution-gpu",
				Reference: reference(t, "public.ecr.aws/sagemaker/sagemaker-distribution:latest-gpu"),
				Nodes:     config.Nodes{Accelerator: config.AcceleratorNVIDIA},
				Required:  true, Pin: true, RefreshInterval: halfDay,
			},
			{
				Name:      "team-a",
				Reference: reference(t, "registry.example.com/team-a/lab:2.1@sha256:3b1f0a6f0c0d1c2b3a4958677685949392919089888786858483828180ffeedd"),
				Nodes: config.Nodes{
					Accelerator: config.AcceleratorAny,
					MatchLabels: map[string]string{"example.com/team": "a"},
					MatchExpressions: []config.Requirement{
						{Key: "node.kubernetes.io/instance-type", Operator: config.OperatorNotIn, Values: []string{"ml.t3.medium", "ml.t3.large"}},
						{Key: "example.com/no-warm", Operator: config.OperatorDoesNotExist},
					},
				},
			},
		},
		Defaults:     config.Defaults{RefreshInterval: halfDay, Pin: true, Required: true},
		Pull:         config.Pull{MaxParallelImages: 2, StallTimeout: config.Duration{Duration: 90 * time.Minute}, Engine: cri.EngineCRI},
		Disk:         config.Disk{HeadroomPercent: 10},
		StartupTaint: config.StartupTaint{FailOpenAfter: config.Duration{Duration: 45 * time.Minute}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(sameReference)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsLeftOutHasItsDefault(t *testing.T) {
	t.Parallel()
	want := config.Default()
	want.Images = []config.Image{{
		Name: "a", Reference: reference(t, "r.io/a:1"),
		Nodes:    config.Nodes{Accelerator: config.AcceleratorAny},
		Required: config.DefaultRequired, Pin: config.DefaultPin,
		RefreshInterval: config.Duration{Duration: config.DefaultRefreshInterval},
	}}
	for name, text := range map[string]string{
		"minimal":          minimal,
		"without values":   minimal + "defaults:\npull: ~\ndisk: null\nstartupTaint: {failOpenAfter: }\n",
		"empty":            minimal + "defaults: {}\npull: {}\ndisk: {}\nstartupTaint: {}\n",
		"byte order mark":  "\ufeff" + minimal,
		"CRLF":             strings.ReplaceAll(minimal, "\n", "\r\n"),
		"document markers": "# comment\n---\n" + minimal + "---\n...\n",
		"blanks around":    header + "images: [{name: a, reference: \" r.io/a:1\\r\\n\"}]\n",
		"block scalar":     header + "images:\n- name: a\n  reference: |\n    r.io/a:1\n",
		"folded, CRLF":     strings.ReplaceAll(header+"images:\n- name: a\n  reference: >\n    r.io/a:1\n", "\n", "\r\n"),
		"JSON":             `{"apiVersion":"prewarm.dev/v1alpha1","kind":"PrewarmConfiguration","images":[{"name":"a","reference":"r.io/a:1"}]}`,
		"defaults last":    header + "images: [{name: a, reference: r.io/a:1, pin: true}]\ndefaults: {pin: true, required: true}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, parse(t, text), cmp.Comparer(sameReference)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnImageOverridesTheDefaultsOfItsFile(t *testing.T) {
	t.Parallel()
	c := parse(t, header+`
images:
  - {name: a, reference: r.io/a, refreshInterval: 1h, pin: true, required: true}
  - {name: b, reference: r.io/b}
defaults: {refreshInterval: 0, pin: false, required: false}
`)
	type effective struct {
		refresh       time.Duration
		pin, required bool
	}
	var got []effective
	for _, i := range c.Images {
		got = append(got, effective{i.RefreshInterval.Duration, i.Pin, i.Required})
	}
	want := []effective{{time.Hour, true, true}, {0, false, false}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(effective{})); diff != "" {
		t.Error(diff)
	}
}

// TestMarshalledItParsesToTheSame holds for YAML and JSON.
func TestMarshalledItParsesToTheSame(t *testing.T) {
	t.Parallel()
	want, err := config.Load("testdata/complete.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, marshal := range map[string]func(any) ([]byte, error){"yaml": yaml.Marshal, "json": json.Marshal} {
		text, err := marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, parse(t, string(text)), cmp.Comparer(sameReference)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestGolden shows every kind of error with its position and remedy. UPDATE_GOLDEN=1 writes what it should be anew.
func TestGolden(t *testing.T) {
	t.Parallel()
	_, err := config.Load("testdata/broken.yaml")
	errs, ok := errors.AsType[config.Errors](err)
	if !ok {
		t.Fatalf("got %v, want Errors", err)
	}
	const golden = "testdata/broken.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(errs.Error()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(errs.Error()+"\n", "\n")); diff != "" {
		t.Error(diff)
	}
	for _, e := range errs {
		if e.Remedy == "" {
			t.Errorf("no remedy: %v", e)
		}
	}
}

func TestErrorsGiveTheirFieldsToErrorsAs(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("f.yaml", []byte(header+"images: [{name: a, reference: 'r.io/A:1'}]"))
	got, ok := errors.AsType[config.FieldError](fmt.Errorf("wrapped: %w", err))
	if !ok {
		t.Fatalf("no FieldError in %v", err)
	}
	want := config.FieldError{
		File: "f.yaml", Line: 3, Column: 31, Field: "images[0].reference", Value: "r.io/A:1",
		Problem: "invalid reference format: repository name (A) must be lowercase", Remedy: "repositories are lower case: r.io/a:1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoadNamesTheFileThatItCannotRead(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := config.Load(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := config.Load(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
}

// TestSizeIsBounded holds for what is read, and for what is said about it.
func TestSizeIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, append([]byte(minimal), bytes.Repeat([]byte("#\n"), config.MaxSize/2)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), ":1:1: is larger than 1048576 bytes") {
		t.Errorf("large file: %v", err)
	}

	_, err := config.Parse("many", []byte(header+"images:\n"+strings.Repeat("- 1\n", 100_000)))
	errs, _ := errors.AsType[config.Errors](err)
	if n := len(errs); n != 101 || errs[n-1].Problem != "and 99900 more" {
		t.Errorf("%d errors, the last of them %v", len(errs), errs[max(len(errs)-1, 0)])
	}

	long := strings.Repeat("X", 100_000)
	for _, text := range []string{
		"images: [{name: " + long + ", reference: r.io/a}]",
		"images: [{name: a, reference: " + long + "}]",
		"images: !" + long + " x",
		"images: *" + long,
		"images: [{name: a, reference: r.io/a, " + long + ": 1}]",
		"images: [{name: 1, reference: r.io/a, nodes: {matchLabels: {" + long + ": 1}}}]",
	} {
		if _, err := config.Parse("long", []byte(header+text)); err == nil || len(err.Error()) > 2000 {
			t.Errorf("%.70s…: error of %d bytes", text, len(fmt.Sprint(err)))
		}
	}
}

// TestAliasesAreNotFollowed stands for the documents that grow a billionfold when they are.
func TestAliasesAreNotFollowed(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	if _, err := config.Parse("bomb", []byte(bomb+header+"images: *z\n")); err == nil || !strings.Contains(err.Error(), "images: is a YAML alias (*z); write the value itself") {
		t.Errorf("got %v", err)
	}
	if _, err := config.Parse("anchor", []byte(header+"images: [&x {name: a, reference: r.io/a}]\n")); err != nil {
		t.Errorf("an anchor alone does no harm: %v", err)
	}
}

// TestMisplacedFieldsAreSentHome puts each field where it does not belong.
func TestMisplacedFieldsAreSentHome(t *testing.T) {
	t.Parallel()
	defaults := reflect.TypeFor[config.Defaults]()
	for _, object := range []struct {
		home  string
		typ   reflect.Type
		wrong string
	}{
		{"the file's outermost level", reflect.TypeFor[config.Configuration](), "disk"},
		{"an entry of images", reflect.TypeFor[config.Image](), "disk"},
		{"defaults or an entry of images", defaults, "disk"},
		{"nodes of an entry of images", reflect.TypeFor[config.Nodes](), "disk"},
		{"pull", reflect.TypeFor[config.Pull](), "disk"},
		{"startupTaint", reflect.TypeFor[config.StartupTaint](), "disk"},
		{"disk", reflect.TypeFor[config.Disk](), "pull"},
	} {
		for f := range object.typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			_, also := defaults.FieldByName(f.Name)
			if name == "apiVersion" || name == "kind" || also && object.typ != defaults {
				continue
			}
			_, err := config.Parse("f", []byte(minimal+object.wrong+": {"+name+": 1}\n"))
			want := object.wrong + "." + name + ": is not a known field; it belongs in " + object.home
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}
