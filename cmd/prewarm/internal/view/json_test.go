package view

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
)

func TestJSONIsOneObjectPerChange(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	j := NewJSON(&out)
	j.Show(midway())
	failed := cri.Progress{Image: ref, Reference: ref, Phase: cri.PhaseFailed, Reason: cri.ReasonDiskFull, Message: "<full> & more"}
	j.End(Result{Progress: failed, Outcome: Failed})
	j.End(Result{Progress: cri.Progress{Reference: ref}, Outcome: NotTried})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(lines), out.Bytes())
	}
	for i, want := range []cri.Progress{midway(), failed} {
		var got cri.Progress
		if err := json.Unmarshal(lines[i], &got); err != nil {
			t.Fatalf("%s: %v", lines[i], err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", i, diff)
		}
	}
	if !bytes.Contains(lines[1], []byte(`"message":"<full> & more"`)) {
		t.Errorf("HTML's escapes: %s", lines[1])
	}
}
