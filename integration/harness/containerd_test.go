package harness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// smallImage has two layers; the upper one is of size bytes that no compression makes smaller.
func smallImage(size int64) images.Spec {
	return images.Spec{Layers: []images.LayerSpec{
		{Content: []images.Content{images.File("etc/release", []byte("small\n"))}},
		{Content: []images.Content{images.Random("data", 1, size)}},
	}}
}

func crictl(t *testing.T, c *harness.Containerd, args ...string) string {
	t.Helper()
	out, err := c.Crictl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func ctr(t *testing.T, c *harness.Containerd, args ...string) string {
	t.Helper()
	out, err := c.Ctr(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// TestPull pulls in both of containerd's ways: the registry sends exactly the bytes of the image, its layers are unpacked
// in the snapshotter that was asked for, and their blobs are kept or not.
func TestPull(t *testing.T) {
	for name, o := range map[string]harness.ContainerdOptions{
		"transfer":     {},
		"local":        {LocalPull: true},
		"discard":      {DiscardUnpackedLayers: true, MaxConcurrentDownloads: 1},
		"native":       {Snapshotter: "native", MaxConcurrentDownloads: 5},
		"discard more": {ExtraConfig: "[plugins.'io.containerd.cri.v1.images']\n  discard_unpacked_layers = true\n"},
	} {
		t.Run(name, func(t *testing.T) {
			reg := harness.NewRegistry(t, harness.RegistryOptions{})
			img, ref := harness.Push(t, reg, "lab/small:1", smallImage(3<<20))
			c := harness.NewContainerd(t, o)
			crictl(t, c, "pull", ref)
			if got := reg.Requests().Filter(harness.Match{Method: "GET"}).Bytes(); got != img.Size() {
				t.Errorf("the registry sent %d bytes, the image has %d:\n%s", got, img.Size(), reg.Requests())
			}
			if out := crictl(t, c, "images", "-q"); out != img.Config.Digest.String() {
				t.Errorf("crictl lists image IDs %q, want %s", out, img.Config.Digest)
			}
			if out := ctr(t, c, "snapshots", "--snapshotter", c.Snapshotter, "ls"); strings.Count(out, "Committed") != len(img.Layers) {
				t.Errorf("snapshots:\n%s\nwant one for each of %d layers", out, len(img.Layers))
			}
			// The end of a lease makes containerd collect its garbage, and --sync waits for that.
			ctr(t, c, "leases", "create", "--id", "test")
			ctr(t, c, "leases", "rm", "--sync", "test")
			blobs := ctr(t, c, "content", "ls", "-q")
			for _, l := range img.Layers {
				if kept := strings.Contains(blobs, l.Digest.String()); kept == strings.HasPrefix(name, "discard") {
					t.Errorf("layer %s is in the content store: %v", l.Digest, kept)
				}
			}
		})
	}
}

// TestMaxConcurrentDownloads holds that the option is one of both ways to pull: where layers are held back at the registry,
// so many of them are asked for and no more.
func TestMaxConcurrentDownloads(t *testing.T) {
	spec := images.Spec{}
	for i := range 4 {
		spec.Layers = append(spec.Layers, images.LayerSpec{Content: []images.Content{images.Random("data", uint64(i), 1<<10)}})
	}
	for name, o := range map[string]harness.ContainerdOptions{
		"transfer": {MaxConcurrentDownloads: 2}, "local": {MaxConcurrentDownloads: 2, LocalPull: true},
	} {
		t.Run(name, func(t *testing.T) {
			reg := harness.NewRegistry(t, harness.RegistryOptions{})
			img, ref := harness.Push(t, reg, "lab/four:1", spec)
			release := make(chan struct{})
			for _, l := range img.Layers {
				reg.Inject(harness.GetBlob(l.Digest), harness.Hold(release))
			}
			c := harness.NewContainerd(t, o)
			pulled := make(chan error, 1)
			go func() {
				_, err := c.Crictl(t.Context(), "pull", ref)
				pulled <- err
			}()
			layers := func(l harness.Requests) (n int) {
				for _, layer := range img.Layers {
					n += len(l.Filter(harness.GetBlob(layer.Digest)))
				}
				return n
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := reg.Wait(ctx, func(l harness.Requests) bool { return layers(l) == 2 }); err != nil {
				t.Error(err)
			}
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := reg.Wait(short, func(l harness.Requests) bool { return layers(l) > 2 }); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("more than 2 layers at once:\n%s", reg.Requests())
			}
			close(release)
			if err := <-pulled; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestContainerdLife holds what survives a stop, a kill and a restart, and that nothing is left at the end: no process, no
// mount that others see, no folder.
func TestContainerdLife(t *testing.T) {
	reg := harness.NewRegistry(t, harness.RegistryOptions{})
	img, ref := harness.Push(t, reg, "lab/small:1", smallImage(1<<10))
	var dir string
	var pids []int
	t.Run("life", func(t *testing.T) {
		c := harness.NewContainerd(t, harness.ContainerdOptions{})
		dir = c.Dir
		endpoint := c.Endpoint()
		crictl(t, c, "pull", ref)
		for name, end := range map[string]func() error{
			"stop": c.Stop, "kill": func() error { c.Kill(); return nil }, "neither": func() error { return nil },
			"both": func() error { c.Kill(); return c.Stop() },
		} {
			pids = append(pids, c.PID())
			if err := end(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if out, err := c.Crictl(t.Context(), "--timeout", "1s", "images"); (err == nil) != (name == "neither") {
				t.Errorf("after %s crictl says %q, %v", name, out, err)
			}
			if err := c.Restart(t.Context()); err != nil {
				t.Fatalf("restart after %s: %v", name, err)
			}
			if out := crictl(t, c, "images", "-q"); out != img.Config.Digest.String() || c.Endpoint() != endpoint {
				t.Errorf("after %s and a restart there is %q on %s, want %s on %s", name, out, c.Endpoint(), img.Config.Digest, endpoint)
			}
		}
		pids = append(pids, c.PID())
		if out := mounts(t, dir); out != nil {
			t.Errorf("containerd's mounts are seen by others: %q", out)
		}
	})
	if diff := cmp.Diff([]string(nil), mounts(t, dir)); diff != "" {
		t.Errorf("mounts are left:\n%s", diff)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// mounts lists what this process sees mounted below a folder.
func mounts(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " "+dir) {
			out = append(out, line)
		}
	}
	return out
}

// TestContainerdFolder holds that a folder works up to the length that the error names.
func TestContainerdFolder(t *testing.T) {
	c, err := harness.StartContainerd(t.Context(), longFolder(t), harness.ContainerdOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out := crictl(t, c, "images", "-q"); out != "" {
		t.Errorf("a new containerd has images %q", out)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

// longFolder is as long as it may be.
func longFolder(t *testing.T) string {
	t.Helper()
	const longest = 89
	dir := harness.Dir(t) + "/"
	return dir + strings.Repeat("x", longest-len(dir))
}

// TestContainerdErrors holds what a user is told when containerd does not start.
func TestContainerdErrors(t *testing.T) {
	longest := longFolder(t)
	for name, c := range map[string]struct {
		dir  string
		o    harness.ContainerdOptions
		want string
	}{
		"relative folder": {dir: "cd", want: "absolute"},
		"too long folder": {dir: longest + "x", want: fmt.Sprintf("at most %d characters", len(longest))},
		"bad settings":    {dir: harness.Dir(t), o: harness.ContainerdOptions{ExtraConfig: "[plugins"}, want: "ended at its start"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := harness.StartContainerd(t.Context(), c.dir, c.o)
			if err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%v, want an error with %q", err, c.want)
			}
		})
	}
}
