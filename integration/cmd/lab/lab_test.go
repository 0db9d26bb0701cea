package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// asLab makes this test's program the lab itself.
const asLab = "LAB_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asLab) != "" {
		main()
		return
	}
	os.Exit(m.Run()) //nolint:forbidigo // this is main
}

func TestParse(t *testing.T) {
	none := options{node: "lab-node", size: images.DemoSize}
	for name, c := range map[string]struct {
		args []string
		want options
		err  string
	}{
		"none": {want: none},
		"all": {
			args: []string{"--dir", "/x", "--no-cluster", "--rate=7", "--node", "n", "--size", "9000000"},
			want: options{dir: "/x", noCluster: true, rate: 7, node: "n", size: 9000000},
		},
		"help":          {args: []string{"-h"}, err: flag.ErrHelp.Error()},
		"unknown":       {args: []string{"--such"}, err: "-such"},
		"argument":      {args: []string{"up"}, err: `"up"`},
		"negative rate": {args: []string{"--rate=-1"}, err: "rate"},
		"small size":    {args: []string{"--size=9"}, err: "size"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			got, err := parse(c.args, &stderr)
			if c.err == "" {
				if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(options{})); diff != "" || err != nil {
					t.Errorf("%v, options:\n%s", err, diff)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want an error with %q", err, c.err)
			}
		})
	}
}

// process is a lab that runs as a process of its own, as a user starts it.
type process struct {
	*exec.Cmd

	dir string
	out *bufio.Scanner
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	p := &process{dir: harness.Dir(t)}
	p.Cmd = exec.CommandContext(ctx, os.Args[0], append([]string{"--dir", p.dir, "--size", strconv.Itoa(4 << 20)}, args...)...)
	p.Env = append(os.Environ(), asLab+"=1", "GORACE=atexit_sleep_ms=0")
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// stop does what Ctrl-C does, and wants nothing to be left: no error, no folder, no mount.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for p.out.Scan() { // to its end, as Wait wants it
		t.Logf("printed late: %s", p.out.Text())
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the lab ended with %v", err)
	}
	left, err := os.ReadDir(p.dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), p.dir) {
		t.Errorf("%v, mounts are left:\n%s", err, mounts)
	}
}

// shell takes what the lab prints as a shell does, and then runs a command.
func (p *process) shell(t *testing.T, printed, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", printed+command)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v: %s", command, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// TestLab starts the lab and uses it with nothing but what it prints.
func TestLab(t *testing.T) {
	p := start(t, "--node", "some-node", "--rate", strconv.Itoa(100<<20))
	var printed string
	var refs []string
	for len(refs) < 2 && p.out.Scan() {
		printed += p.out.Text() + "\n"
		if ref, ok := strings.CutPrefix(p.out.Text(), "#   "); ok {
			refs = append(refs, strings.Fields(ref)[0])
		}
	}
	if len(refs) < 2 {
		t.Fatalf("it printed only:\n%s", printed)
	}
	for _, ref := range refs {
		if out := p.shell(t, printed, "crictl pull "+ref+" && crictl images -q "+ref); !strings.Contains(out, "sha256:") {
			t.Errorf("crictl prints %q of %s", out, ref)
		}
	}
	if out := p.shell(t, printed, "kubectl get node $NODE_NAME -o name"); out != "node/some-node" {
		t.Errorf("kubectl prints %q, want the Node", out)
	}
	p.stop(t)
}

// TestLabNoCluster holds that without the API server nothing is said of one.
func TestLabNoCluster(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := harness.Dir(t)
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"--dir", dir, "--no-cluster", "--size", strconv.Itoa(4 << 20)}, writer, io.Discard)
		done <- errors.Join(err, writer.Close())
	}()
	printed := make([]byte, 4096)
	n, err := reader.Read(printed) // the lab prints all at once, when it is ready
	cancel()
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	if text := string(printed[:n]); strings.Contains(text, "KUBECONFIG") || !strings.Contains(text, "CONTAINER_RUNTIME_ENDPOINT=unix://"+dir) {
		t.Errorf("it printed:\n%s", text)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestLabStopEarly holds that a lab which is told to stop while it starts ends without an error and leaves nothing.
func TestLabStopEarly(t *testing.T) {
	p := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := harness.Poll(ctx, func(context.Context) error { // its folder is the first thing it makes
		if entries, err := os.ReadDir(p.dir); err != nil || len(entries) == 0 {
			return errors.Join(err, errors.New("no folder yet"))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	p.stop(t)
}

// TestLabKilled holds that what the lab has started ends with it even where it cannot end anything itself.
func TestLabKilled(t *testing.T) {
	p := start(t, "--no-cluster")
	if !p.out.Scan() { // it is ready
		t.Fatal("it printed nothing")
	}
	children := p.children(t)
	if len(children) == 0 {
		t.Error("it has started nothing")
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // its error is the kill
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, pid := range children {
		if err := harness.Poll(ctx, func(context.Context) error {
			// What has ended has no program any more, even if nobody has waited for it.
			if program, err := os.Readlink("/proc/" + pid + "/exe"); err == nil {
				return errors.New(program + " still runs")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// children are the process IDs of what the lab has started.
func (p *process) children(t *testing.T) []string {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a thread may have ended
			t.Fatal(err)
		}
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids
}
