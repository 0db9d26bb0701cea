package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/fleet"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

func TestFleet(t *testing.T) {
	t.Parallel()
	now := time.Unix(10_000, 0)
	image := func(p cri.Progress) []status.ImageStatus { return []status.ImageStatus{{Progress: p, Known: true}} }
	nodes := []fleet.Node{
		{Name: "a", Status: &status.Snapshot{Ready: true, Images: image(cri.Progress{
			Image: "cpu", Phase: cri.PhaseReady, Digest: "sha256:0123456789abcdef", ReadyAt: now.Add(-2 * time.Hour),
		})}},
		{Name: "b", Status: &status.Snapshot{Images: image(cri.Progress{
			Image: "cpu", Phase: cri.PhasePulling, StartedAt: now.Add(-time.Minute), Bytes: cri.Bytes{Total: 4e9, Fetched: 1e9}, Rate: 5e7, ETASeconds: new(60.0),
		})}},
		{Name: "c", Status: &status.Snapshot{Images: image(cri.Progress{Image: "cpu", Phase: cri.PhaseFailed, Reason: cri.ReasonUnauthorized, Message: "401\nsays the registry"})}},
		{Name: "d", Error: "its pod waits: ImagePullBackOff"},
		{Name: "e", Status: &status.Snapshot{RuntimeError: "no socket"}},
	}
	var out strings.Builder
	if err := Fleet(&out, nodes, now, 0); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Fields(line))
	}
	want := [][]string{
		{"NODE", "WARM", "IMAGE", "DIGEST", "STATE", "PROGRESS", "SINCE", "REASON", "MESSAGE"},
		{"a", "yes", "cpu", "sha256:0123456789ab", "ready", "-", "2h00m", "-", "-"},
		{"b", "no", "cpu", "-", "pulling", "25%", "of", "4.00", "GB", "50.0", "MB/s", "1m00s", "left", "1m00s", "-", "-"},
		{"c", "no", "cpu", "-", "failed", "-", "-", "Unauthorized", "401", "says", "the", "registry"},
		{"d", "unknown", "-", "-", "-", "-", "-", "AgentUnavailable", "its", "pod", "waits:", "ImagePullBackOff"},
		{"e", "no", "-", "-", "-", "-", "-", "-", "no", "socket"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s\n%s", d, out.String())
	}
	out.Reset()
	if err := Fleet(&out, nil, now, 0); err != nil || out.String() != "no agent runs in this cluster\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestNodeDetail(t *testing.T) {
	t.Parallel()
	n := fleet.Node{Name: "a", Status: &status.Snapshot{Images: []status.ImageStatus{{Progress: cri.Progress{
		Image: "cpu", Reference: "r.example/cpu:1", Phase: cri.PhasePulling, Detail: cri.DetailLayers, Bytes: cri.Bytes{Total: 100, Fetched: 50},
		Layers: []cri.LayerProgress{{Digest: "sha256:aaaaaaaaaaaabbbb", Size: 100, Fetched: 50, State: cri.LayerFetching}},
	}}}}}
	var out strings.Builder
	if err := NodeDetail(&out, n, Canvas{Width: 100, Height: 100}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"r.example/cpu:1", "aaaaaaaaaaaa", "fetching", "50%"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := NodeDetail(&out, fleet.Node{Name: "b", Error: "gone"}, Canvas{}); err != nil || out.String() != "b: gone\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
