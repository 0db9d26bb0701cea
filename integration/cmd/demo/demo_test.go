package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

// The demo tells the whole story, in order, and removes all that it made.
func TestTheDemo(t *testing.T) {
	short := harness.Dir(t) // containerd's socket must have a short path
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	err = run(t.Context(), []string{"-dir", short, "-size", "60000000", "-rate", "4000000"}, out)
	text, readErr := os.ReadFile(out.Name())
	if err != nil || readErr != nil {
		t.Fatalf("%v, %v\n%s", err, readErr, text)
	}
	labels := `image\.prewarm\.dev/cpu: "[0-9a-f]{12}"\n  image\.prewarm\.dev/gpu: "[0-9a-f]{12}"\n  prewarm\.dev/image-ready: "true"\n`
	story := regexp.MustCompile(`(?s)A registry with two images.*A private containerd.*` +
		`cpu    layer \d of 5 .* MB  \w+.*cpu  ready.*gpu  pulling.*gpu  ready.*` + labels +
		`.*deletes the cpu image.*cpu  ready.*Not ready any more \d+ ms.*` + labels +
		`.*started again.*ready after \d+ ms and 0 requests to the registry.*Everything is removed`)
	if !story.Match(text) {
		t.Errorf("another story than %s:\n%s", story, text)
	}
	left, err := os.ReadDir(short)
	if err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v, %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), short) {
		t.Errorf("mounts are left, or cannot be read: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{{"now"}, {"-size", "x"}, {"-dir", "/nonexistent/folder"}} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), args, out); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// A file system that is too small is refused before anything is started.
func TestTooLittleRoom(t *testing.T) {
	dir := t.TempDir()
	if err := room(dir, 1<<62); err == nil || !strings.Contains(err.Error(), "-size") || !strings.Contains(err.Error(), dir) {
		t.Errorf("room: %v, want an error that names the folder and the remedy", err)
	}
	if err := room(dir, 1); err != nil {
		t.Errorf("room for one byte: %v", err)
	}
}
