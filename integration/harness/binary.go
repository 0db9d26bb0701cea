package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// EnvBin names the environment variable with the folder of the components' binaries.
const EnvBin = "PREWARM_BIN"

// Binary finds a component's program: in the folder that PREWARM_BIN names, else beside the program that runs, as lab and
// demo lie beside the components, else in .bin at the root of the repository. The error says how to build it.
func Binary(name string) (string, error) {
	dir := os.Getenv(EnvBin)
	if dir == "" {
		if path, ok := beside(name); ok {
			return path, nil
		}
		root, err := RepoRoot()
		if err != nil {
			return "", fmt.Errorf("binary %s: %w, or set %s", name, err, EnvBin)
		}
		dir = filepath.Join(root, ".bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", fmt.Errorf("binary %s: %w", name, err)
	}
	if !isProgram(path) {
		return "", fmt.Errorf("%s is no program (%s is where it is looked for): build it with `make %s`", path, EnvBin, target(name))
	}
	return path, nil
}

// beside looks for a program in the folder of the one that runs, which is not where a link to it is.
func beside(name string) (string, bool) {
	self, err := os.Executable()
	if err != nil {
		return "", false
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", false
	}
	path := filepath.Join(filepath.Dir(self), name)
	return path, isProgram(path)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// target is the make target that builds a binary.
func target(name string) string {
	switch name {
	case "containerd", "containerd-shim-runc-v2", "ctr", "crictl":
		return "tools-runtime"
	case "prewarm":
		return "build"
	default:
		return "tools"
	}
}

// RepoRoot is the root of the repository: the nearest folder with the tools' makefile, upwards from the working folder, from
// where this file was compiled, which a build with -trimpath does not know, or from the program that runs.
func RepoRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working folder: %w", err)
	}
	starts := []string{wd}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	if self, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(self))
	}
	for _, dir := range starts {
		if root, ok := rootAbove(dir); ok {
			return root, nil
		}
	}
	return "", fmt.Errorf("there is no repository at or above %s: run this in one", strings.Join(starts, ", "))
}

func rootAbove(dir string) (string, bool) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "integration", "tools", "tools.mk")); err == nil {
			return dir, true
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", false
		}
		dir = above
	}
}

// CacheDir is where built images are kept from run to run; git ignores it and make clean removes it.
func CacheDir() (string, error) {
	root, err := RepoRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "integration", "testdata", "cache"), nil
}
