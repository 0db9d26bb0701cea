package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// DemoSize is how many bytes of files the demo's images have together unless told otherwise.
const DemoSize = 1200 << 20

// Demo describes two images in the shape of SageMaker Distribution, for cpu and for gpu: a few small layers that both
// have, then one that dominates, which is larger for gpu, and a last small one. They are made of this machine's own
// files, size bytes in all, or of all files where the machine has not so many.
func Demo(ctx context.Context, size int64) (cpu, gpu Spec, err error) {
	dirs, err := realDirs(ctx)
	if err != nil {
		return cpu, gpu, err
	}
	// No file is larger than the smallest layer, so each layer has some.
	all := Tree{Dirs: dirs, Limit: size, Largest: size / 100}
	available, err := all.size()
	if err != nil {
		return cpu, gpu, err
	}
	size = min(size, available)
	var next int64
	part := func(percent int64) LayerSpec {
		tree := all
		tree.Skip, tree.Limit = next, size*percent/100
		next += tree.Limit
		return LayerSpec{Content: []Content{tree}}
	}
	system, tools, packages := part(3), part(1), part(4)
	last := func(kind string) LayerSpec {
		return LayerSpec{Content: []Content{File("etc/sagemaker-distribution", []byte(kind+"\n"))}}
	}
	cpu.Layers = []LayerSpec{system, tools, packages, part(30), last("cpu")}
	gpu.Layers = []LayerSpec{system, tools, packages, part(62), last("gpu")}
	return cpu, gpu, nil
}

// realDirs are folders with much in them: the system's, those of Go, and the sources that it has fetched. Temporary ones
// are not among them, nor those of a user.
func realDirs(ctx context.Context) ([]string, error) {
	dirs := []string{"/usr/bin", "/usr/lib", "/usr/share"}
	if out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE").Output(); err == nil {
		dirs = append(dirs, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	var found []string
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			if info, err := os.Stat(real); err == nil && info.IsDir() {
				found = append(found, real)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("none of %s is there to make images of", strings.Join(dirs, ", "))
	}
	return found, nil
}
