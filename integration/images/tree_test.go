package images_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/integration/images"
)

// write makes files of so many bytes below a folder.
func write(t *testing.T, dir string, files map[string]int) {
	t.Helper()
	for name, size := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTree holds which files are in which part of a folder.
func TestTree(t *testing.T) {
	dir, second := t.TempDir(), t.TempDir()
	write(t, dir, map[string]int{"a": 10, "b/c": 20, "b/d": 30, "e": 40, ".wh.x": 5, "huge": 1000})
	write(t, second, map[string]int{"z": 10})
	if err := os.Symlink("a-target", filepath.Join(dir, "link")); err != nil { // 8 bytes
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "none"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tree images.Tree
		want string
	}{
		"all":           {tree: images.Tree{Limit: 5000}, want: "a b/c b/d e huge link z"},
		"without large": {tree: images.Tree{Limit: 5000, Largest: 999}, want: "a b/c b/d e link z"},
		"first part":    {tree: images.Tree{Limit: 30, Largest: 50}, want: "a b/c"},
		"second part":   {tree: images.Tree{Skip: 30, Limit: 70, Largest: 50}, want: "b/d e"},
		"last part":     {tree: images.Tree{Skip: 100, Limit: 30, Largest: 50}, want: "link z"},
		"before more":   {tree: images.Tree{Limit: 29, Largest: 50}, want: "a"},
		"in a file":     {tree: images.Tree{Skip: 1, Limit: 20, Largest: 50}, want: "b/c"},
		"behind all":    {tree: images.Tree{Skip: 500, Limit: 30, Largest: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			c.tree.Dirs = []string{dir, second}
			img := build(t, t.TempDir(), images.Spec{Layers: []images.LayerSpec{{
				Compression: images.Uncompressed, Content: []images.Content{c.tree},
			}}})
			var got []string
			for _, n := range names(t, read(t, img.Layers[0].File)) {
				for _, d := range []string{dir, second} {
					if rest, ok := strings.CutPrefix("/"+n, d+"/"); ok && rest != "" && !strings.HasSuffix(rest, "/") {
						got = append(got, rest)
					}
				}
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("files:\n%s", diff)
			}
		})
	}
	_, err := images.Build(t.Context(), t.TempDir(), images.Spec{Layers: []images.LayerSpec{
		{Content: []images.Content{images.Tree{Dirs: []string{"/does/not/exist"}, Limit: 10}}},
	}})
	if err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("a folder that is not there: %v, want an error that names it", err)
	}
}

// TestDemo holds the shape of the demo's images, in small: three layers that both have, one that dominates, and a last one
// of a few bytes.
func TestDemo(t *testing.T) {
	const size = 30 << 20
	cpu, gpu, err := images.Demo(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c, g := build(t, dir, cpu), build(t, dir, gpu)
	for i := range 3 {
		if c.Layers[i].Digest != g.Layers[i].Digest {
			t.Errorf("layer %d is not the same in both images", i)
		}
	}
	total := g.Layers[3].Unpacked
	for _, l := range c.Layers {
		total += l.Unpacked
	}
	// Between the layers a file can fall out, and each file has a header; Largest bounds the one, many small ones the other.
	if total < size*9/10 || total > size*2 {
		t.Errorf("both images have %d bytes, want about %d", total, size)
	}
	for _, img := range []*images.Image{c, g} {
		var rest int64
		for i, l := range img.Layers {
			if l.Unpacked < 100 {
				t.Errorf("layer %d has %d bytes", i, l.Unpacked)
			}
			if i != 3 {
				rest += l.Unpacked
			}
		}
		if img.Layers[3].Unpacked < 2*rest {
			t.Errorf("the large layer has %d bytes, the others %d, want it to dominate", img.Layers[3].Unpacked, rest)
		}
	}
	if g.Layers[3].Unpacked < c.Layers[3].Unpacked*3/2 {
		t.Errorf("the large layer has %d bytes for gpu and %d for cpu", g.Layers[3].Unpacked, c.Layers[3].Unpacked)
	}
}

// TestDemoSize holds that this machine has files enough for images that take a while to pull, without building them.
func TestDemoSize(t *testing.T) {
	cpu, gpu, err := images.Demo(t.Context(), images.DemoSize)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, l := range append(cpu.Layers, gpu.Layers[3]) {
		if tree, ok := l.Content[0].(images.Tree); ok {
			sum += tree.Limit
		}
	}
	if sum < 300<<20 {
		t.Errorf("%d bytes of files, want several hundred MB", sum)
	}
}
