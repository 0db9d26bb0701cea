package harness

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/integration/images"
)

// T is what New functions need of a *testing.T or *testing.B.
type T interface {
	reporter
	Helper()
	Cleanup(func())
	Context() context.Context
}

// reporter is what tells of a test.
type reporter interface {
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// slowStop is how long a component may take to stop without a word.
const slowStop = 3 * time.Second

// failedLines is how much of a component's log a failed test shows.
const failedLines = 60

// Dir makes a folder that is removed when the test ends. Its path is short, as the path of a Unix socket must be, which
// that of t.TempDir is not.
func Dir(t T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "prewarm-")
	if err != nil {
		t.Fatalf("folder for a test: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Logf("a folder is left: %v", err)
		}
	})
	return dir
}

// atEnd stops a component when the test ends, and shows the end of its log where the test has failed.
func atEnd(t T, name, log string, stop func() error) {
	t.Helper()
	t.Cleanup(func() {
		began := time.Now()
		if err := stop(); err != nil {
			t.Logf("stop %s: %v", name, err)
		}
		if took := time.Since(began); took > slowStop {
			t.Logf("%s took %v to stop", name, took)
		}
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", name, tail(log, failedLines))
		}
	})
}

// Image builds an image for a test, into a cache in the repository that later runs use too.
func Image(t T, s images.Spec) *images.Image {
	t.Helper()
	dir, err := CacheDir()
	if err != nil {
		t.Fatalf("%v", err)
	}
	img, err := images.Build(t.Context(), dir, s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return img
}

// Push builds an image and pushes it to a registry, under the name repository:tag. It gives the image and the reference.
func Push(t T, r *Registry, name string, s images.Spec) (*images.Image, string) {
	t.Helper()
	img := Image(t, s)
	repository, tag, _ := strings.Cut(name, ":")
	if err := img.Push(r, repository, tag); err != nil {
		t.Fatalf("%v", err)
	}
	return img, r.Ref(name)
}
