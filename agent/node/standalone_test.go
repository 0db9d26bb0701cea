package node

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// What is logged without a Node is what a Node would get: where nothing is known nothing is taken back.
func TestStandaloneLogsWhatANodeWouldGet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	unknown := State{Images: map[string]Image{"cpu": {}}}
	Standalone(t.Context(), slices.Values([]State{ready(), ready(), unknown, lost(), lost()}), log)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"image.prewarm.dev/cpu=0123456789ab prewarm.dev/image-ready=true",
		"image.prewarm.dev/cpu- prewarm.dev/image-ready-",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d records, want %d:\n%s", len(lines), len(want), out.String())
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) {
			t.Errorf("record %d: %s\nwant in it %s", i, line, want[i])
		}
	}
}
