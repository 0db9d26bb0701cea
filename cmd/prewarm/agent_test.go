package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cmd/prewarm/internal/view"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/cri/critest"
)

func TestAnAgentWantsANodeOrNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args, env string
		ok        bool
	}{
		"neither":            {"", "", false},
		"flag":               {"--node-name=a", "", true},
		"environment":        {"", "a", true},
		"standalone":         {"--standalone", "", true},
		"standalone, in pod": {"--standalone", "a", true},
		"both":               {"--standalone --node-name=a", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			env := map[string]string{envNodeName: test.env, "KUBECONFIG": "/nonexistent"}
			a := app{stdout: io.Discard, stderr: &stderr, getenv: func(k string) string { return env[k] }}
			// Where the flags are right it comes as far as the address, which is wrong.
			code := a.run(t.Context(), append([]string{"agent", "--listen", "nowhere", "--kubeconfig", kubeconfig(t)}, strings.Fields(test.args)...))
			if want := map[bool]int{true: exitFailed, false: exitUsage}[test.ok]; code != want {
				t.Errorf("exit code %d, want %d: %s", code, want, stderr.String())
			}
			if !test.ok && (!strings.Contains(stderr.String(), "--node-name") || !strings.Contains(stderr.String(), "--standalone")) {
				t.Errorf("the error does not name the flags: %s", stderr.String())
			}
		})
	}
}

// kubeconfig is one of a cluster that nobody asks anything.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}],
		"clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnAgentThatCannotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	address := taken.Addr().String()
	for says, args := range map[string]string{
		"--listen " + address: "--standalone --listen " + address,
		"--listen nowhere":    "--standalone --listen nowhere",
		"/no/such/kubeconfig": "--node-name a --kubeconfig /no/such/kubeconfig",
	} {
		out := prewarm(t.Context(), newFake(t), append([]string{"agent"}, strings.Fields(args)...)...)
		if out.code != exitFailed || !strings.Contains(out.stderr, says) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", args, out.code, out.stderr, exitFailed, says)
		}
	}
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually asks until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// The parts are joined: an image that the runtime has is ready, which HTTP, log and stdout say, and a signal ends it well.
func TestAgentStandalone(t *testing.T) {
	t.Parallel()
	runtime := critest.Start(t)
	ref, err := cri.ParseReference("registry.example/a:1")
	if err != nil {
		t.Fatal(err)
	}
	runtime.Put(cri.Image{Reference: ref, Digest: digest.FromString("a"), Config: digest.FromString("config of a")})
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nimages: [{name: a, reference: registry.example/a:1}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr lockedBuffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a := app{stdout: &stdout, stderr: &stderr, version: "v1.2.3", getenv: func(string) string { return "" }, connect: connect}
	code := make(chan int, 1)
	go func() {
		code <- a.run(ctx, []string{"agent", "--standalone", "--config", file, "--listen", "127.0.0.1:0", "--runtime-endpoint", runtime.Socket, "-o", "json"})
	}()
	var address string
	eventually(t, "address in the log", func() bool {
		m := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(stderr.String())
		if m != nil {
			address = m[1]
		}
		return m != nil
	})
	var s status.Snapshot
	eventually(t, "image ready", func() bool {
		_, body := get(t, "http://"+address+"/v1/status")
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
		return s.Ready
	})
	if i, _ := s.Image("a"); i.Verified != cri.VerifiedRuntime || !s.Standalone || s.Configuration.Source != file {
		t.Errorf("state %+v", s)
	}
	for path, want := range map[string]string{"/readyz": "ok", "/healthz": "ok", "/metrics": `prewarm_build_info{version="v1.2.3"} 1`} {
		if code, body := get(t, "http://"+address+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.300s, want %q in it", path, code, body, want)
		}
	}
	eventually(t, "labels in the log", func() bool {
		return strings.Contains(stderr.String(), "image.prewarm.dev/a="+digest.FromString("a").Encoded()[:12]+" prewarm.dev/image-ready=true")
	})
	eventually(t, "ready on stdout", func() bool { return strings.Contains(stdout.String(), `"phase":"ready"`) })
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d after a signal, want %d: %s", got, exitOK, stderr.String())
	}
}

// A socket that is no CRI ends the agent, a missing one does not.
func TestAgentWithoutARuntime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "web.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(web.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	args := []string{"agent", "--standalone", "--config", "/nonexistent", "--listen", "127.0.0.1:0", "--runtime-endpoint"}
	out := prewarm(t.Context(), newFake(t), append(args, "unix://"+path)...)
	if out.code != exitUnreachable || !strings.Contains(out.stderr, path) || !strings.Contains(out.stderr, string(cri.ReasonRuntimeUnsupported)) {
		t.Errorf("exit code %d: %s; want %d, the socket and the reason", out.code, out.stderr, exitUnreachable)
	}
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if out := prewarm(ctx, newFake(t), append(args, "unix:///no/such.sock")...); out.code != exitOK || !strings.Contains(out.stderr, "/no/such.sock") {
		t.Errorf("exit code %d: %s; want it to wait, and to say for what", out.code, out.stderr)
	}
}

func TestTogetherEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	ended := make(chan struct{})
	err := together(t.Context(),
		func(ctx context.Context) error { <-ctx.Done(); close(ended); return errors.New("a consequence") },
		func(context.Context) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("%v, want %v", err, boom)
	}
	select {
	case <-ended:
	default:
		t.Error("the other was not waited for")
	}
}

// What an agent does is told in a line for each image that has come or failed, once.
func TestBarsOfAnAgent(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	bars, err := view.NewBars(&out, func() (int, int, error) { return 120, 20, nil }, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &barred{bars: bars, pulls: map[string]time.Time{}}
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := cri.Progress{Image: "a", Reference: "registry.example/a:1", Detail: cri.DetailLayers}
	move := func(change func(*cri.Progress)) {
		was := p
		change(&p)
		b.change(was, p)
	}
	phase := func(to cri.Phase) func(*cri.Progress) { return func(p *cri.Progress) { p.Phase = to } }
	move(phase(cri.PhaseResolving))
	move(func(p *cri.Progress) { p.Phase, p.StartedAt = cri.PhasePulling, begun })
	move(func(p *cri.Progress) { p.Phase, p.Reason = cri.PhaseFailed, cri.ReasonUnknownHost })
	move(func(p *cri.Progress) { p.Message = "again" })
	move(func(p *cri.Progress) { p.Phase, p.Reason = cri.PhasePulling, "" })
	move(func(p *cri.Progress) { p.Phase, p.ReadyAt = cri.PhaseReady, begun.Add(12*time.Second) })
	move(phase(cri.PhaseLost))
	move(phase(cri.PhaseReady)) // somebody else brought it back
	if err := bars.Close(); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]int{"failed": 1, "UnknownHost": 1, "pulled": 1, "in 12s": 1, "already present": 1} {
		if n := strings.Count(out.String(), word); n != want {
			t.Errorf("%q is told %d times, want %d:\n%q", word, n, want, out.String())
		}
	}
}

// What cannot be shown is told once in the log, and the agent goes on.
func TestAStdoutThatBreaksIsTold(t *testing.T) {
	t.Parallel()
	store := status.New(status.StoreOptions{Standalone: true, Now: time.Now})
	j := view.NewJSON(full{})
	show := &agentShow{change: func(_, is cri.Progress) { j.Show(is) }, failed: j.Err, end: j.Close}
	ref, err := cri.ParseReference("r.example/a:1")
	if err != nil {
		t.Fatal(err)
	}
	store.SetImages([]config.Image{{Name: "a", Reference: ref}})
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	told := make(chan struct{}, 8)
	logger := slog.New(slog.NewTextHandler(io.MultiWriter(&log, signalling{told}), nil))
	go func() { done <- show.follow(ctx, store, logger) }()
	move := func(phase cri.Phase) {
		t.Helper()
		if err := store.Update("a", func(i *status.ImageStatus) { i.Phase = phase }); err != nil {
			t.Fatal(err)
		}
	}
	move(cri.PhaseResolving)
	<-told
	move(cri.PhaseFailed)
	cancel()
	if err := <-done; err != nil || strings.Count(log.String(), "no space left on device") != 1 {
		t.Errorf("%v, log: %s", err, log.String())
	}
}

// signalling tells of each write.
type signalling struct{ told chan<- struct{} }

func (s signalling) Write(p []byte) (int, error) {
	s.told <- struct{}{}
	return len(p), nil
}
