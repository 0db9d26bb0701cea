package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/prewarm-dev/prewarm/agent/config"
)

// FuzzParse: nothing makes it panic, what it accepts marshals and parses to the same, and each error has a place and one
// line. More seeds are in testdata/fuzz/FuzzParse.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"testdata/complete.yaml", "testdata/broken.yaml"} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(minimal))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("f", data)
		if err == nil {
			parsesToTheSame(t, c)
			return
		}
		errs, ok := errors.AsType[config.Errors](err)
		if !ok || c != nil || len(errs) == 0 {
			t.Fatalf("got %v and %#v", c, err)
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(errs) {
			t.Errorf("%d errors in %d lines:\n%v", len(errs), len(lines), err)
		}
		for i, e := range errs {
			if e.Line < 1 || e.Line > len(data)+1 || e.Column < 1 || e.Problem == "" || e.Remedy == "" {
				t.Errorf("incomplete: %#v", e)
			}
			if i > 0 && e.Line < errs[i-1].Line {
				t.Errorf("out of order: %v", err)
			}
		}
	})
}

func parsesToTheSame(t *testing.T, want *config.Configuration) {
	t.Helper()
	for _, marshal := range []func(any) ([]byte, error){yaml.Marshal, json.Marshal} {
		text, err := marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := config.Parse("again", text)
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, text)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(sameReference)); diff != "" {
			t.Errorf("%s\nin\n%s", diff, text)
		}
	}
}
