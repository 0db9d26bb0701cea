package cli_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

// A socket that is not there, or is no CRI, is named, with what to do.
func TestSocketsThatAreNone(t *testing.T) {
	n := &node{&harness.Machine{Containerd: &harness.Containerd{Dir: "/nonexistent"}}}
	web := filepath.Join(harness.Dir(t), "web.sock")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", web)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	for _, command := range [][]string{{"pull", "a:1"}, {"plan", "a:1"}, {"cleanup", "--standalone"}} {
		n.run(t, command...).wants(t, 3, nil, []string{"/nonexistent/c.sock", "RuntimeUnavailable"})
		n.run(t, append(command, "--runtime-endpoint", "unix://"+web)...).wants(t, 3, nil, []string{web, "RuntimeUnsupported", "kubelet"})
	}
	n.run(t, "agent", "--standalone", "--listen", "127.0.0.1:0", "--runtime-endpoint", web).wants(t, 3, nil, []string{web, "RuntimeUnsupported"})
}

// Where no socket is named the well-known ones are tried, and each is named with what it said. The command runs in a root
// of its own, since this machine may have such a socket.
func TestNoSocketAnywhere(t *testing.T) {
	n := &node{&harness.Machine{Containerd: &harness.Containerd{Dir: "/nonexistent"}}}
	cmd := n.command(t, "pull", "a:1")
	binary, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "prewarm"), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Dir, cmd.Env = "/prewarm", "/", []string{}
	cmd.SysProcAttr.Chroot = root
	finish(t, cmd, nil).wants(t, 3, nil, []string{
		"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock", "no such file or directory",
		"--runtime-endpoint", "CONTAINER_RUNTIME_ENDPOINT",
	})
}

func TestVersion(t *testing.T) {
	n := &node{&harness.Machine{Containerd: &harness.Containerd{Dir: "/nonexistent"}}}
	n.run(t, "version").wants(t, 0, []string{"prewarm ", "linux/"}, nil)
	n.run(t, "version", "-o", "json").wants(t, 0, []string{`"version":"`, `"goVersion":"go1.`}, nil)
}

// A wrong command line says what is wrong with it and where help is; help has an example, and shells can complete.
func TestCommandLine(t *testing.T) {
	n := &node{&harness.Machine{Containerd: &harness.Containerd{Dir: "/nonexistent"}}}
	n.run(t, "pull").wants(t, 2, nil, []string{"name at least one image reference", "prewarm pull --help"})
	n.run(t, "plan", "-o", "yaml", "a:1").wants(t, 2, nil, []string{"valid is text, json"})
	for _, command := range []string{"pull", "plan", "agent", "cleanup", "status", "version"} {
		n.run(t, command, "--help").wants(t, 0, []string{"Examples:\n  prewarm " + command}, nil)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		n.run(t, "completion", shell).wants(t, 0, []string{"prewarm", "__complete"}, nil)
	}
}

// Cleanup takes everything away that an agent left, says what, and can be run again; images go only if that is asked for.
func TestCleanup(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 461, 300*kib)
	config := filepath.Join(t.TempDir(), "config.yaml")
	writeConfig(t, config, ref)
	a := harness.NewAgent(t, "--standalone", "--config="+config, "--runtime-endpoint="+n.Endpoint())
	pinned := func() bool {
		out, err := n.Ctr(t.Context(), "images", "ls")
		return err == nil && strings.Count(out, "prewarm.dev/owner=a") == 2
	}
	harness.Eventually(t, "the image is pinned", pinned)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Ctr(t.Context(), "leases", "create", "--id", "prewarm/left", "--expires", "1h", "prewarm.dev/owner=left"); err != nil {
		t.Fatal(err)
	}
	id := img.Config.Digest.String()
	n.run(t, "cleanup", "--standalone", "--dry-run", "--images").wants(t, 0, []string{"would unpin " + id, "partial download of left", "would remove image " + id}, nil)
	if !pinned() {
		t.Fatal("--dry-run has unpinned")
	}
	n.run(t, "cleanup", "--standalone").wants(t, 0, []string{"unpinned " + id, "dropped the partial download of left"}, nil)
	if out := n.MustCrictl(t, "images", "-q"); pinned() || !strings.Contains(out, id[7:20]) {
		t.Errorf("pinned: %v, images: %s; want the image to stay without its pin", pinned(), out)
	}
	n.run(t, "cleanup", "--standalone").wants(t, 0, []string{"nothing of prewarm is here"}, nil)

	a = harness.NewAgent(t, "--standalone", "--config="+config, "--runtime-endpoint="+n.Endpoint())
	harness.Eventually(t, "the image is pinned again", pinned)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	n.run(t, "cleanup", "--standalone", "--images", "-o", "json").wants(t, 0, []string{`"removedImages":["` + id}, nil)
	if out := n.MustCrictl(t, "images", "-q"); strings.Contains(out, id[7:20]) {
		t.Errorf("the image is still there: %s", out)
	}
}
