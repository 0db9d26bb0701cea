package harness

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

const envNamespaces = "PREWARM_HARNESS_NAMESPACES"

// InNamespaces runs a test, by its name, in a process of its own with network, mounts and processes of its own: what it starts,
// mounts and configures is gone with it, and the machine's network is not touched. It reports whether this is that process.
func InNamespaces(t T, name string) bool {
	t.Helper()
	if os.Getenv(envNamespaces) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("namespaces: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		self, "-test.run=^"+name+"$", "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), envNamespaces+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in namespaces of its own: %v\n%s", err, out)
	} else {
		t.Logf("in namespaces of its own:\n%s", out)
	}
	return false
}

// Addresses gives the loopback interface of a network namespace of ours addresses, beside 127.0.0.1.
func Addresses(t T, addresses ...string) {
	t.Helper()
	if os.Getenv(envNamespaces) == "" {
		t.Fatalf("network: this is the machine's: call InNamespaces before")
	}
	commands := [][]string{{"link", "set", "lo", "up"}}
	for _, a := range addresses {
		commands = append(commands, []string{"addr", "add", a + "/32", "dev", "lo"})
	}
	for _, args := range commands {
		if _, err := run(t.Context(), "", nil, "ip", args...); err != nil {
			t.Fatalf("network: %v", err)
		}
	}
}

// Forward takes connections on an address and passes them on to another one, until the test ends: a Service without a proxy.
func Forward(t T, from, to string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", from)
	if err != nil {
		t.Fatalf("forward: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go forward(t.Context(), conn, to)
		}
	}()
}

func forward(ctx context.Context, conn net.Conn, to string) {
	var d net.Dialer
	other, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		_ = conn.Close()
		return
	}
	var wg sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // whichever end breaks, both see it
		if half, ok := to.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}
	wg.Go(func() { pass(other, conn) })
	wg.Go(func() { pass(conn, other) })
	wg.Wait()
	_ = other.Close()
	_ = conn.Close()
}
