package image_test

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/image"
)

// mostBytes is how much a pull of the image may fetch.
const mostBytes = 15e6

// made is the folder with the image that make image has made.
func made(t *testing.T) string {
	t.Helper()
	prewarm, err := harness.Binary("prewarm")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(prewarm), "image")
	if _, err := os.Stat(filepath.Join(dir, image.Archive)); err != nil {
		t.Fatalf("%v: build it with make image", err)
	}
	return dir
}

// images are those of the index, by platform.
func images(t *testing.T, dir string) map[string]v1.Image {
	t.Helper()
	root, err := layout.ImageIndexFromPath(filepath.Join(dir, image.LayoutFolder))
	if err != nil {
		t.Fatal(err)
	}
	top, err := root.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%v, %+v", err, top)
	}
	index, err := root.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]v1.Image{}
	for _, d := range manifest.Manifests {
		if out[d.Platform.String()], err = index.Image(d.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// What is shipped is for both platforms, small, and has one file and nothing else.
func TestWhatIsShipped(t *testing.T) {
	all := images(t, made(t))
	if len(all) != 2 || all["linux/amd64"] == nil || all["linux/arm64"] == nil {
		t.Fatalf("platforms: %v", all)
	}
	for platform, img := range all {
		size, err := image.Size(img)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MB", platform, float64(size)/1e6)
		if size > mostBytes {
			t.Errorf("%s has %d bytes, want at most %d", platform, size, int(mostBytes))
		}
		c, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c.OS+"/"+c.Architecture != platform || c.Config.User != "0:0" || c.Created.IsZero() ||
			!slices.Equal(c.Config.Entrypoint, []string{"/prewarm"}) || !slices.Equal(c.Config.Cmd, []string{"agent"}) {
			t.Errorf("%s: %+v", platform, c)
		}
		for _, key := range []string{"version", "revision", "created", "source", "licenses", "title"} {
			if c.Config.Labels["org.opencontainers.image."+key] == "" {
				t.Errorf("%s has no label %s", platform, key)
			}
		}
		if files := filesOf(t, img); !cmp.Equal(files, []string{"prewarm 755 0:0"}) {
			t.Errorf("%s has the files %v", platform, files)
		}
	}
}

func filesOf(t *testing.T, img v1.Image) []string {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []string
	files := tar.NewReader(r)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %o %d:%d", h.Name, h.Mode, h.Uid, h.Gid))
	}
}

// binary makes a small program that stands for prewarm's: it was built by Go too.
func binary(t *testing.T) string {
	t.Helper()
	path, err := harness.Binary("pause")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func options(file string, at time.Time) image.Options {
	return image.Options{Name: "", Version: "v1.2.3", Revision: "abc", Created: at, Binaries: map[string]string{"linux/amd64": file, "linux/arm64": file}}
}

// Made elsewhere and later of the same binaries, it is the same to the last byte.
func TestReproducible(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	var archives [2][]byte
	for i := range archives {
		file := filepath.Join(t.TempDir(), "copy")
		content, err := os.ReadFile(binary(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		o := options(file, at)
		index, err := image.Build(o)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := image.Write(index, o, dir); err != nil {
			t.Fatal(err)
		}
		if archives[i], err = os.ReadFile(filepath.Join(dir, image.Archive)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same binaries differ")
	}
}

// The list of what the image is made of names every module of the binary, with its version.
func TestSBOM(t *testing.T) {
	dir := made(t)
	text, err := os.ReadFile(filepath.Join(dir, "sbom-linux-amd64.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		SPDXVersion string
		Packages    []struct{ Name, VersionInfo string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range doc.Packages {
		got = append(got, p.Name+" "+p.VersionInfo)
	}
	out, err := harness.Run(t.Context(), "go", "version", "-m", filepath.Join(dir, "prewarm-amd64"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			n++
			if !slices.Contains(got, f[1]+" "+f[2]) {
				t.Errorf("the list lacks %s %s", f[1], f[2])
			}
		}
	}
	if n < 20 || len(got) != n+2 || doc.SPDXVersion != "SPDX-2.3" { // and prewarm itself, and the standard library
		t.Errorf("%d modules, the list has %d", n, len(got))
	}
}

// What is pushed can be pulled by its name, and its list is found by who looks for what refers to it.
func TestPush(t *testing.T) {
	r := harness.NewRegistry(t, harness.RegistryOptions{})
	ref, err := name.ParseReference(r.Ref("prewarm/prewarm:v1"))
	if err != nil {
		t.Fatal(err)
	}
	o := options(binary(t), time.Unix(0, 0))
	index, err := image.Build(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := image.Push(t.Context(), index, o, ref); err != nil {
		t.Fatal(err)
	}
	got, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := got.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		about, err := remote.Referrers(ref.Context().Digest(d.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		list, err := about.IndexManifest()
		if err != nil || len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != image.SBOMMediaType {
			t.Errorf("%s: %v, %+v", d.Platform, err, list)
		}
	}
}

func TestBadInputIsRefused(t *testing.T) {
	for what, o := range map[string]image.Options{
		"no binaries":  {},
		"no platform":  {Binaries: map[string]string{"amd64": "x"}},
		"no such file": {Binaries: map[string]string{"linux/amd64": filepath.Join(t.TempDir(), "none")}},
	} {
		if _, err := image.Build(o); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// BuildKit's own linter finds nothing in the Dockerfile, and would: it does in one with faults.
func TestDockerfile(t *testing.T) {
	lint, err := harness.Binary("dockerlint")
	if err != nil {
		t.Fatal(err)
	}
	root, err := harness.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Run(t.Context(), lint, filepath.Join(root, "Dockerfile")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	faulty := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(faulty, []byte("FROM scratch\nCMD prewarm agent\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Run(t.Context(), lint, faulty); err == nil || !strings.Contains(out, ":2: JSONArgsRecommended") {
		t.Errorf("of a Dockerfile with a fault it says %q, %v", out, err)
	}
}
