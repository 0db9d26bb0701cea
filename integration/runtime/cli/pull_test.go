package cli_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// One bad reference of three does not keep the others from being pulled; a table tells what became of each.
func TestPullOfThreeReferencesOfWhichOneIsBad(t *testing.T) {
	n := newNode(t)
	_, a := n.Push(t, "lab/a:1", 401, 300*kib)
	_, b := n.Push(t, "lab/b:1", 402, 300*kib)
	for _, bad := range []struct{ ref, reason string }{
		{n.Registry.Ref("lab/missing:1"), "ImageNotFound"}, {"https://" + n.Registry.Ref("lab/a:1"), "InvalidReference"},
	} {
		o := n.run(t, "pull", a, bad.ref, b)
		o.wants(t, 1, []string{"REFERENCE", "RESULT", bad.reason}, []string{"1 of 3 images failed", bad.ref})
		if rows := regexp.MustCompile(`(?m)^(\S+) +(pulled|already present|failed) `).FindAllStringSubmatch(o.stdout, -1); len(rows) != 3 {
			t.Errorf("the table has other rows: %v", rows)
		}
	}
	for _, ref := range []string{a, b} {
		if out := n.MustCrictl(t, "inspecti", "-q", ref); !strings.Contains(out, ref) {
			t.Errorf("%s is not there: %s", ref, out)
		}
	}
}

// Every change is a line of JSON; they add up to the image and never go back. An image that is there costs nothing.
func TestPullAsJSON(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 411, 200*kib, 3*mib)
	n.Registry.Inject(harness.GetBlob(img.Layers[1].Digest), harness.Rate(2*mib))
	o := n.run(t, "pull", "-o", "json", ref)
	o.wants(t, 0, []string{`"phase":"resolving"`, `"etaSeconds":`, `"chainID":`, `"startedAt":`}, nil)
	var last cri.Progress
	for _, p := range objects(t, o.stdout) {
		if here := p.Bytes.Present + p.Bytes.Fetched; here < last.Bytes.Present+last.Bytes.Fetched || here > p.Bytes.Total || !cri.CanMove(last.Phase, p.Phase) {
			t.Errorf("went from %s %+v to %s %+v", last.Phase, last.Bytes, p.Phase, p.Bytes)
		}
		if cmp.Equal(last, p) {
			t.Errorf("a line tells no change: %+v", p)
		}
		last = p
	}
	if want := (cri.Bytes{Total: size(img), Fetched: size(img)}); last.Phase != cri.PhaseReady || last.Bytes != want ||
		last.Digest != img.Descriptor.Digest || last.ReadyAt.IsZero() {
		t.Errorf("the last line is %+v, want it ready with %+v", last, want)
	}
	for i, l := range last.Layers {
		if want := img.Layers[i]; l.Digest != want.Digest || l.Size != want.Size || l.Fetched != want.Size || l.State != cri.LayerDone {
			t.Errorf("layer %d of the last line is %+v, the manifest has %s, %d bytes", i, l, want.Digest, want.Size)
		}
	}
}

// A pull of what is there asks the registry what the reference means, and nothing else, and takes no time.
func TestPullOfWhatIsThere(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 415, 200*kib, 1*mib)
	n.run(t, "pull", ref).wants(t, 0, nil, nil)
	n.Registry.Forget()
	// Whoever fetched a blob would wait for it until the test's patience is over.
	n.Registry.Inject(harness.GetBlob(""), harness.Hold(nil))
	begun := time.Now()
	o := n.run(t, "pull", "-o", "json", ref)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	o.wants(t, 0, []string{`"already present"`}, nil)
	lines := objects(t, o.stdout)
	if last, want := lines[len(lines)-1], (cri.Bytes{Total: size(img), Present: size(img)}); last.Phase != cri.PhaseReady || last.Bytes != want {
		t.Errorf("the last line is %+v, want it ready with %+v", last, want)
	}
	if blobs := n.Registry.Requests().Filter(harness.GetBlob("")); len(blobs) > 0 {
		t.Errorf("blobs were asked for:\n%s", blobs)
	}
}

// Only what is being fetched is said to be: containerd opens all downloads at once, and this one runs one at a time.
func TestLayersThatWaitAreNotSaidToBeFetched(t *testing.T) {
	n := newNode(t)
	_, ref := n.Push(t, "lab/a:1", 418, 2*mib, 2*mib, 2*mib, 2*mib)
	n.Registry.Inject(harness.GetBlob(""), harness.Rate(2*mib)) // each is seen: containerd tells of it when it has half of it
	most := 0
	for _, p := range objects(t, n.run(t, "pull", "-o", "json", ref).stdout) {
		fetching := 0
		for _, l := range p.Layers {
			if l.State == cri.LayerFetching {
				fetching++
			}
		}
		most = max(most, fetching)
	}
	if most < 1 || most > 2 { // one ends while the next begins
		t.Errorf("%d layers at once are said to be fetched, want 1 or 2", most)
	}
}

// objects reads lines of JSON, in which nothing unknown may stand.
func objects(t *testing.T, stdout string) []cri.Progress {
	t.Helper()
	var all []cri.Progress
	for line := range strings.Lines(stdout) {
		var p cri.Progress
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil || d.More() {
			t.Fatalf("%s: no JSON object on a line: %v", line, err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("nothing was told")
	}
	return all
}

// In a pipe there are plain lines, and nothing of the libraries below on stderr.
func TestPullAsLines(t *testing.T) {
	n := newNode(t)
	_, ref := n.Push(t, "lab/a:1", 421, 200*kib, 300*kib)
	o := n.run(t, "pull", ref)
	o.wants(t, 0, []string{"resolving " + ref, "pulling " + ref, "ready " + ref, "digest=sha256:"}, nil)
	if strings.ContainsAny(o.stdout, "\x1b\r") {
		t.Errorf("control characters in a pipe: %q", o.stdout)
	}
	n.run(t, "pull", ref).wants(t, 0, []string{"already present"}, nil)
}

// What plan says is what pull then does.
func TestPlanIsWhatPullDoes(t *testing.T) {
	n := newNode(t)
	one, first := n.Push(t, "lab/one:1", 431, 200*kib, 1*mib)
	two, second := n.Push(t, "lab/two:1", 431, 200*kib, 2*mib)
	n.run(t, "pull", first).wants(t, 0, nil, nil)
	n.Registry.Forget()
	o := n.run(t, "plan", "-o", "json", first, second)
	o.wants(t, 0, nil, nil)
	var plan struct {
		Fetch                 int64
		UnpackEstimate        int64
		Disk                  cri.Disk
		DiskFreeAfterEstimate int64
	}
	if err := json.Unmarshal([]byte(o.stdout), &plan); err != nil {
		t.Fatal(err)
	}
	if after := plan.Disk.Free - plan.Fetch - plan.UnpackEstimate; plan.Disk.Free <= 0 || plan.UnpackEstimate < plan.Fetch || plan.DiskFreeAfterEstimate != after {
		t.Errorf("the disk before and after: %+v, want %d after", plan, after)
	}
	if sent := n.Fetched(t, append(one.Layers, two.Layers...)...); sent != 0 || plan.Fetch != two.Layers[1].Size {
		t.Errorf("plan fetched %d bytes and says %d, want none and %d", sent, plan.Fetch, two.Layers[1].Size)
	}
	n.run(t, "pull", first, second).wants(t, 0, nil, nil)
	if sent := n.Fetched(t, two.Layers...); sent != plan.Fetch {
		t.Errorf("pull fetched %d bytes, plan said %d", sent, plan.Fetch)
	}
	n.run(t, "plan", first, second).wants(t, 0, []string{"REFERENCE", "UNPACK", second, "2 (0 missing)", "Disk of ", " free now, ~"}, nil)
}

// Ctrl-C ends a pull, and the next one goes on.
func TestInterrupt(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 441, 200*kib, 8*mib)
	slow := img.Layers[1]
	remove := n.Registry.Inject(harness.GetBlob(slow.Digest), harness.Rate(3*mib))
	cmd := n.command(t, "pull", ref)
	o := finish(t, cmd, func() {
		if err := n.Registry.Wait(harness.Deadline(t), func(harness.Requests) bool { return n.Registry.Served(slow.Digest) > 3*mib }); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	})
	o.wants(t, 130, nil, []string{"interrupted", "goes on"})
	remove()
	n.run(t, "pull", ref).wants(t, 0, []string{"ready " + ref}, nil)
	if sent := n.Fetched(t, img.Layers...); sent > size(img)+mib {
		t.Errorf("%d bytes were fetched in all, of an image of %d", sent, size(img))
	}
}
