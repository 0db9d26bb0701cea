package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// agentStart is how long an agent may take until it listens, and agentStop until it has ended.
	agentStart, agentStop = 30 * time.Second, 3 * time.Second
)

// Agent is a process of the built binary, prewarm agent.
type Agent struct {
	// URL is where it listens.
	URL string
	PID int

	done chan struct{}
	err  error // how it ended; read it after done
	told bool  // to stop

	mu     sync.Mutex
	log    []string
	stdout strings.Builder
}

// NewAgent starts an agent for a test, with flags on top of those that every agent here has. It is stopped, which must go
// well, when the test ends.
func NewAgent(t T, flags ...string) *Agent {
	t.Helper()
	a, err := startAgent(flags)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Errorf("%v", err)
		}
		if t.Failed() {
			t.Logf("log of agent %d:\n%s", a.PID, a.Log())
		}
	})
	return a
}

func startAgent(flags []string) (*Agent, error) {
	path, err := Binary("prewarm")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, append([]string{"agent", "--listen=127.0.0.1:0", "--log-format=json"}, flags...)...) //nolint:noctx // Stop ends it
	cmd.Env = []string{}                                                                                           // nothing of the machine's
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a := &Agent{done: make(chan struct{})}
	cmd.Stderr, cmd.Stdout = writer, lockedWriter{a}
	started, address := make(chan error, 1), make(chan string, 1)
	go func() {
		// The death signal comes when the thread that started the process ends: hold it (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(a.done)
		err := cmd.Start()
		_ = writer.Close() // the process has its own
		if err == nil {
			a.PID = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			a.err = errors.Join(a.read(stderr, address), cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	timer := time.NewTimer(agentStart)
	defer timer.Stop()
	select {
	case a.URL = <-address:
		return a, nil
	case <-a.done:
		return nil, fmt.Errorf("the agent ended at its start: %w\n%s", a.err, a.Log())
	case <-timer.C:
		return nil, errors.Join(fmt.Errorf("the agent does not say where it listens\n%s", a.Log()), a.Stop())
	}
}

// lockedWriter keeps what the agent writes to stdout.
type lockedWriter struct{ a *Agent }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	return w.a.stdout.Write(p)
}

// read keeps the log and finds in it where the agent listens.
func (a *Agent) read(stderr io.ReadCloser, address chan<- string) error {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var record struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "prewarm agent starts" {
			address <- "http://" + record.Address
		}
		a.mu.Lock()
		a.log = append(a.log, lines.Text())
		a.mu.Unlock()
	}
	return errors.Join(lines.Err(), stderr.Close())
}

// Log is what it has logged so far, JSON lines.
func (a *Agent) Log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.log, "\n")
}

// Stdout is what it has written there so far.
func (a *Agent) Stdout() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stdout.String()
}

// Stop sends SIGTERM; the error is that it did not end in time and in good order. It may be called again.
func (a *Agent) Stop() error {
	if a.Ended() && !a.told {
		return fmt.Errorf("the agent has ended, and nobody told it to: %w", a.err)
	}
	a.told = true
	if !a.Ended() {
		_ = syscall.Kill(a.PID, syscall.SIGTERM) // it may have ended in between, which the exit code tells
	}
	timer := time.NewTimer(agentStop)
	defer timer.Stop()
	select {
	case <-a.done:
		return a.err
	case <-timer.C:
		a.Kill()
		return fmt.Errorf("the agent had not ended %v after SIGTERM", agentStop)
	}
}

// Kill ends it at once, as a crash does. Stop then gives no error.
func (a *Agent) Kill() {
	a.told = true
	if !a.Ended() {
		_ = syscall.Kill(a.PID, syscall.SIGKILL)
	}
	<-a.done
	a.err = nil
}

// Ended reports whether the process has ended.
func (a *Agent) Ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}
