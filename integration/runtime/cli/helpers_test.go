// Package cli_test holds the command line, as the binary that is built, to a real containerd and a real registry.
package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// node is a machine on which commands are run.
type node struct{ *harness.Machine }

func newNode(t *testing.T) *node {
	t.Helper()
	return &node{harness.NewMachine(t, harness.ContainerdOptions{MaxConcurrentDownloads: 1})}
}

// outcome is what a run of the command line left behind.
type outcome struct {
	code           int
	stdout, stderr string
}

// command is a run of the built binary on this node, without the machine's environment.
func (n *node) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := harness.Binary("prewarm")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(harness.Deadline(t), path, args...)
	cmd.Env = []string{"CONTAINER_RUNTIME_ENDPOINT=" + n.Endpoint()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs the binary to its end.
func (n *node) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, n.command(t, args...), nil)
}

// finish runs a command and calls during, if there is one, while it runs.
func finish(t *testing.T, cmd *exec.Cmd, during func()) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if during != nil {
		during()
	}
	err := cmd.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() < 0) {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	return outcome{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// wants holds an outcome to an exit code, and to words on stdout and stderr.
func (o outcome) wants(t *testing.T, code int, stdout, stderr []string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d", o.code, code)
	}
	for text, words := range map[string][]string{o.stdout: stdout, o.stderr: stderr} {
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%q is not said", w)
			}
		}
	}
	if stderr == nil && o.stderr != "" {
		t.Error("something is on stderr")
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", o.stdout, o.stderr)
	}
}

func size(img *images.Image) int64 {
	var sum int64
	for _, l := range img.Layers {
		sum += l.Size
	}
	return sum
}

func writeConfig(t *testing.T, name, ref string) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nimages: [{name: a, reference: %q}]\n", ref)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
