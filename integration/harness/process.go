package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// stopTimeout is how long a component has to end by itself before it is killed.
	stopTimeout = 15 * time.Second
	// tailLines is how much of a log an error shows.
	tailLines = 15
)

var errEnded = errors.New("ended at its start")

// command says how a component is started.
type command struct {
	name string
	args []string
	env  []string
	log  string
	// ownMounts gives the process a mount namespace of its own: what it mounts is seen by it alone, and is gone with it.
	ownMounts bool
}

// process is a component that runs. It is killed by the kernel when the process that started it ends, however it ends.
type process struct {
	name, log string
	pid       int
	done      chan struct{}
	// err is how it ended; read it after done.
	err error
}

// run starts the component and appends what it prints to its log.
func (c command) run() (*process, error) {
	path, err := Binary(c.name)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", c.name, err)
	}
	cmd := exec.Command(path, c.args...) //nolint:noctx // outlives the context of its start; stop and kill end it
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.ownMounts {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	p := &process{name: c.name, log: c.log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The death signal comes when the *thread* that started the process ends: hold it (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		p.err = errors.Join(p.err, log.Close())
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// start runs the component and waits until it is ready.
func (c command) start(ctx context.Context, timeout time.Duration, probe func(context.Context) error) (*process, error) {
	p, err := c.run()
	if err != nil {
		return nil, err
	}
	return p, p.ready(ctx, timeout, probe)
}

// ready waits until probe succeeds. It fails at once when the process ends, and kills it when the time is up.
func (p *process) ready(ctx context.Context, timeout time.Duration, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ready within %v", timeout))
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := Poll(ctx, probe)
	cancel()
	<-ended
	if p.ended() {
		return fmt.Errorf("%s: %w\n%s", p.name, errors.Join(errEnded, p.err), tail(p.log, tailLines))
	}
	if err != nil {
		p.kill()
		return fmt.Errorf("%s: %w\n%s", p.name, err, tail(p.log, tailLines))
	}
	return nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks the process to end, and kills it when it does not within stopTimeout, which is an error. Neither it nor kill
// minds a process that has ended, or that never started.
func (p *process) stop() error {
	if p == nil || p.ended() {
		return nil
	}
	if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.kill()
		return fmt.Errorf("%s did not stop within %v and was killed\n%s", p.name, stopTimeout, tail(p.log, tailLines))
	}
}

// kill ends the process and its group at once and waits until it is gone.
func (p *process) kill() {
	if p == nil {
		return
	}
	if !p.ended() {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // it may have ended in between
	}
	<-p.done
}

// tail is the end of a log.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
