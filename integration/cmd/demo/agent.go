package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// agentProcess is a running agent, and what it says on /v1/watch.
type agentProcess struct {
	// stop ends it in good order. It may be called again.
	stop func() error

	mu      sync.Mutex
	now     status.Snapshot
	changed chan struct{}
	broken  error
}

// startAgent starts the agent as a user would. On a terminal it draws its bars itself; otherwise lines are made of what
// it serves.
func (d *demo) startAgent(ctx context.Context) error {
	path, err := harness.Binary("prewarm")
	if err != nil {
		return err
	}
	config := filepath.Join(d.dir, "config.yaml")
	if err := os.WriteFile(config, []byte(d.configuration()), 0o644); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	port, err := harness.FreePort(ctx)
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command(path, "agent", "--standalone", "--config", config, "--listen", address, //nolint:noctx // stop ends it
		"--runtime-endpoint", d.containerd.Endpoint(), "--log-level", "warn")
	cmd.Stdout, cmd.Stderr = d.out, d.out
	if f, ok := d.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		cmd.Stderr = f
	}
	// Ctrl-C is for the demo, which ends the agent in good order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	watch, end := context.WithCancel(ctx)
	a := &agentProcess{changed: make(chan struct{})}
	a.stop = sync.OnceValue(func() error {
		end()
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	})
	d.agent = a
	d.stops = append(d.stops, a.stop)
	go a.follow(watch, "http://"+address+"/v1/watch", d.lines())
	return nil
}

// lines shows what changes, where there are no bars.
func (d *demo) lines() func(status.Snapshot) {
	if f, ok := d.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return func(status.Snapshot) {}
	}
	return (&lines{out: d.out, told: map[string]string{}}).show
}
