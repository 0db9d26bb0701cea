package agent_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// What others read of the agent, held to the names of its fields and not to our own types: the state while an image is
// being pulled and after it, the metrics of the pull with the right values, the objects on stdout, the labels in the log.
func TestWhatIsTold(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, known := n.Push(t, "lab/known:1", 281, 200*kib)
	img, ref := n.Push(t, "lab/told:1", 281, 200*kib, 3*mib) // shares its first layer
	n.MustCrictl(t, "pull", known)
	shared, own := img.Layers[0].Size, img.Layers[1].Size
	n.Registry.Inject(harness.GetBlob(img.Layers[1].Digest), harness.Rate(mib))
	n.configure(t, "told", ref)
	a := n.start(t, "-o", "json")
	unread(t, a)
	until(t, a, "told", "being pulled at a known speed", func(i status.ImageStatus) bool { return i.ETASeconds != nil })
	during := image(t, a)
	wantFields(t, during, map[string]any{
		"image": "told", "reference": ref, "digest": img.Descriptor.Digest.String(), "phase": "pulling", "progress": "layers", "required": true,
	}, "rate", "etaSeconds", "startedAt")
	bytes, _ := during["bytes"].(map[string]any)
	wantFields(t, bytes, map[string]any{"total": float64(shared + own), "present": float64(shared)}, "fetched")
	layers, _ := during["layers"].([]any)
	if len(layers) != 2 {
		t.Fatalf("layers %v, want 2", layers)
	}
	first, _ := layers[0].(map[string]any)
	last, _ := layers[1].(map[string]any)
	chain := img.Layers[0].DiffID.String() // of the lowest layer both are the same
	wantFields(t, first, map[string]any{
		"digest": img.Layers[0].Digest.String(), "chainID": chain, "size": float64(shared), "fetched": float64(shared), "state": "done",
	}, "since")
	wantFields(t, last, map[string]any{"digest": img.Layers[1].Digest.String(), "size": float64(own), "state": "fetching"}, "fetched", "chainID")

	untilReady(t, a, "told")
	wantFields(t, image(t, a), map[string]any{"phase": "ready", "verified": "snapshots", "pinned": true}, "readyAt", "startedAt")
	answers(t, a, "/metrics", http.StatusOK,
		"prewarm_node_ready 1\n", `prewarm_image_ready{image="told"} 1`, `prewarm_image_phase{image="told",phase="ready"} 1`,
		`prewarm_image_phase{image="told",phase="pulling"} 0`, `prewarm_image_pinned{image="told"} 1`,
		value(`prewarm_pull_bytes{image="told",kind="total"}`, shared+own), value(`prewarm_pull_bytes{image="told",kind="present"}`, shared),
		value(`prewarm_pull_bytes{image="told",kind="fetched"}`, own), value(`prewarm_pull_fetched_bytes_total{image="told"}`, own),
		`prewarm_pulls_total{image="told",reason="",result="success"} 1`, `prewarm_pull_seconds_count{image="told",result="success"} 1`,
		`prewarm_pull_seconds_bucket{image="told",result="success",le="1"} 0`, `prewarm_pull_seconds_bucket{image="told",result="success",le="10"} 1`,
		"prewarm_config_generation 1\n", `prewarm_config_reloads_total{result="success"} 1`, "prewarm_runtime_reconnects_total 0\n")
	digits := img.Descriptor.Digest.Encoded()[:12]
	if err := a.UntilLog(harness.Deadline(t), "image.prewarm.dev/told="+digits, "prewarm.dev/image-ready=true"); err != nil {
		t.Error(err)
	}
	harness.Eventually(t, "the last change is on stdout", func() bool { return strings.Contains(lastLine(a.Stdout()), `"phase":"ready"`) })
	holdStdout(t, a.Stdout())
}

// value is a line of /metrics; numbers are written as Go's shortest.
func value(series string, n int64) string { return fmt.Sprintf("%s %v\n", series, float64(n)) }

// image is the first image of /v1/status, as anybody's JSON.
func image(t *testing.T, a *harness.Agent) map[string]any {
	t.Helper()
	_, body, err := a.Get(harness.Deadline(t), "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Images []map[string]any }
	if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Images) == 0 {
		t.Fatalf("%s: %v", body, err)
	}
	return s.Images[0]
}

// wantFields wants fields of an object to have these values, and more of them not to be empty.
func wantFields(t *testing.T, object, values map[string]any, filled ...string) {
	t.Helper()
	for name, want := range values {
		if diff := cmp.Diff(want, object[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range filled {
		if v := object[name]; v == nil || v == "" || v == float64(0) {
			t.Errorf("%s is %v in %v", name, v, object)
		}
	}
}

// holdStdout wants one object a line, each different from the one before, in phases that may follow each other.
func holdStdout(t *testing.T, out string) {
	t.Helper()
	var before cri.Progress
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		var p cri.Progress
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("line %d is no object: %v: %s", i, err, line)
		}
		if i > 0 && line == lines[i-1] {
			t.Errorf("nothing has changed in line %d: %s", i, line)
		}
		if !mayFollow(before.Phase, p.Phase) {
			t.Errorf("line %d: from %q to %q", i, before.Phase, p.Phase)
		}
		before = p
	}
	if len(lines) < 4 {
		t.Errorf("%d changes, want more of a pull of seconds", len(lines))
	}
}

// mayFollow reports whether a reader may see one phase after another: readers may miss one that lasts for a moment.
func mayFollow(from, to cri.Phase) bool {
	return cri.CanMove(from, to) || slices.ContainsFunc(cri.Phases(), func(between cri.Phase) bool {
		return cri.CanMove(from, between) && cri.CanMove(between, to)
	})
}

// unread is a client that asks to watch and never reads: it must disturb neither the pull nor the agent's end.
func unread(t *testing.T, a *harness.Agent) {
	t.Helper()
	address := strings.TrimPrefix(a.URL, "http://")
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET /v1/watch HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
		t.Fatal(err)
	}
}

// A second agent on the same port ends with an error that names the flag and the address; the first does not mind.
func TestTwoAgentsOnOnePort(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, ref := n.Push(t, "lab/a:1", 285, 100*kib)
	n.configure(t, "a", ref)
	a := n.start(t)
	path, err := harness.Binary("prewarm")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(a.URL, "http://")
	out, err := exec.CommandContext(harness.Deadline(t), path, "agent", "--standalone", "--config="+n.config,
		"--runtime-endpoint="+n.Endpoint(), "--listen="+address).CombinedOutput()
	var code int
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Run gives it unwrapped
		code = exit.ExitCode()
	}
	if code != 1 || !strings.Contains(string(out), "--listen "+address) || !strings.Contains(string(out), "address already in use") {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	untilReady(t, a, "a")
}
