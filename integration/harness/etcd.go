package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const etcdTimeout = 30 * time.Second

// Etcd is a single etcd.
type Etcd struct {
	// Dir is its folder: data and log.
	Dir string
	// URL is where its clients find it.
	URL string

	peer string
	proc *process
}

// StartEtcd starts an etcd in dir and waits until it is healthy. It does not force its data to disk: what it keeps
// survives its own crash, but not that of the machine.
func StartEtcd(ctx context.Context, dir string) (*Etcd, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	client, err := FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	peer, err := FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	e := &Etcd{Dir: dir, URL: "http://" + loopback(client), peer: "http://" + loopback(peer)}
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// NewEtcd starts an etcd for a test.
func NewEtcd(t T) *Etcd {
	t.Helper()
	e, err := StartEtcd(t.Context(), Dir(t))
	if err != nil {
		t.Fatalf("%v", err)
	}
	atEnd(t, "etcd", e.Log(), e.Stop)
	return e
}

// Log is the file with what etcd has logged since its first start: warnings only.
func (e *Etcd) Log() string { return filepath.Join(e.Dir, "etcd.log") }

// Stop ends etcd in good order. It may be called again, and after Kill.
func (e *Etcd) Stop() error { return e.proc.stop() }

// Kill ends etcd at once.
func (e *Etcd) Kill() { e.proc.kill() }

// Restart stops etcd where it still runs and starts it with the same data on the same ports.
func (e *Etcd) Restart(ctx context.Context) error {
	if err := e.Stop(); err != nil {
		return err
	}
	return e.start(ctx)
}

func (e *Etcd) start(ctx context.Context) (err error) {
	e.proc, err = command{name: "etcd", log: e.Log(), args: []string{
		"--name=lab", "--data-dir=" + filepath.Join(e.Dir, "data"),
		"--listen-client-urls=" + e.URL, "--advertise-client-urls=" + e.URL,
		"--listen-peer-urls=" + e.peer, "--initial-advertise-peer-urls=" + e.peer, "--initial-cluster=lab=" + e.peer,
		"--unsafe-no-fsync", "--log-level=warn",
	}}.start(ctx, etcdTimeout, answers(&http.Client{Timeout: time.Second}, e.URL+"/health"))
	return err
}

// answers is a probe that wants status 200 from a URL.
func answers(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}
