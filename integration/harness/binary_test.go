package harness_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

// TestMain lets this test's program answer for Binary when a test starts a copy of it elsewhere.
func TestMain(m *testing.M) {
	if name := os.Getenv("HARNESS_TEST_FIND"); name != "" {
		find(name)
		return
	}
	m.Run()
}

// find prints where Binary finds a program, or why not.
func find(name string) {
	path, err := harness.Binary(name)
	if err != nil {
		path = "error: " + err.Error()
	}
	_, _ = os.Stdout.WriteString(path)
}

// TestBinary holds the order in which a program is looked for: the environment, beside the program that runs, and the
// repository, from wherever it is started.
func TestBinary(t *testing.T) {
	root, err := harness.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{"env": t.TempDir(), "self": t.TempDir(), "other": t.TempDir()}
	place(t, filepath.Join(dirs["env"], "etcd"), 0o755)
	place(t, filepath.Join(dirs["self"], "etcd"), 0o755)
	place(t, filepath.Join(dirs["self"], "ctr"), 0o644) // is no program
	self := filepath.Join(dirs["self"], "self")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("cp", program, self).Run(); err != nil { //nolint:noctx // a moment
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wd, env, binary, want string
	}{
		"environment": {wd: root, env: dirs["env"], binary: "etcd", want: filepath.Join(dirs["env"], "etcd")},
		"beside":      {wd: root, binary: "etcd", want: filepath.Join(dirs["self"], "etcd")},
		"from afar":   {wd: dirs["other"], binary: "etcd", want: filepath.Join(dirs["self"], "etcd")},
		"repository":  {wd: filepath.Join(root, "integration", "harness"), binary: "containerd", want: filepath.Join(root, ".bin", "containerd")},
		"no program beside": {
			wd: root, binary: "ctr", want: filepath.Join(root, ".bin", "ctr"),
		},
		"environment without it": {wd: root, env: dirs["other"], binary: "etcd", want: "error: " + filepath.Join(dirs["other"], "etcd") + " is no program"},
		"what to do":             {wd: root, env: dirs["other"], binary: "crictl", want: "`make tools-runtime`"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Dir = c.wd
			cmd.Env = append(os.Environ(), "HARNESS_TEST_FIND="+c.binary, harness.EnvBin+"="+c.env,
				"GORACE=atexit_sleep_ms=0") // else each takes a second to end
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(out), c.want) {
				t.Errorf("%s is found at %s, want %s", c.binary, out, c.want)
			}
		})
	}
}

func place(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"), mode); err != nil {
		t.Fatal(err)
	}
}
