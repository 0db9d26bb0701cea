package runtime_test

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// What is learned of containerd is what it was configured with.
func TestInfo(t *testing.T) {
	certs := t.TempDir()
	for name, o := range map[string]harness.ContainerdOptions{
		"plain":      {},
		"like EKS":   {DiscardUnpackedLayers: true, RegistryConfigPath: certs + ":/etc/docker/certs.d"},
		"native":     {Snapshotter: "native"},
		"local pull": {LocalPull: true, RegistryConfigPath: certs},
	} {
		t.Run(name, func(t *testing.T) {
			c := harness.NewContainerd(t, o)
			want := cri.Info{
				Name: "containerd", Version: "2.4.2", Endpoint: c.Endpoint(), ImageEndpoint: c.Endpoint(), Detail: cri.DetailLayers,
				Snapshotter: c.Snapshotter, DiscardsLayers: o.DiscardUnpackedLayers, RegistryConfigPath: o.RegistryConfigPath,
			}
			if want.RegistryConfigPath == "" {
				want.RegistryConfigPath = "/etc/containerd/certs.d:/etc/docker/certs.d"
			}
			got := connect(t, cri.Options{RuntimeEndpoint: c.Endpoint()}).Info()
			got.Version = strings.TrimPrefix(got.Version, "v")
			got.Version, _, _ = strings.Cut(got.Version, "+")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The endpoint comes from the option, with a scheme or as a path, or from the environment; the option wins.
func TestTheEndpointIsNamedByOptionOrEnvironment(t *testing.T) {
	c := harness.NewContainerd(t, harness.ContainerdOptions{})
	for name, tc := range map[string]struct{ option, env string }{
		"URL":                 {option: c.Endpoint()},
		"path":                {option: c.Socket()},
		"environment":         {env: c.Endpoint()},
		"option, environment": {option: c.Socket(), env: "unix:///nowhere/else.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(cri.EnvRuntimeEndpoint, tc.env)
			t.Setenv(cri.EnvImageEndpoint, "")
			if got := connect(t, cri.Options{RuntimeEndpoint: tc.option}).Info().Endpoint; got != c.Endpoint() {
				t.Errorf("connected to %s, want %s", got, c.Endpoint())
			}
		})
	}
}

// containerd's other socket speaks ttrpc, other programs speak gRPC or HTTP: the error says which socket it was and what is
// wrong with it.
func TestASocketThatIsNoRuntimeIsNamed(t *testing.T) {
	c := harness.NewContainerd(t, harness.ContainerdOptions{})
	dir := harness.Dir(t)
	serve := func(name string, serve func(net.Listener) error) string {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = serve(l) }()
		return l.Addr().String()
	}
	bare, web := grpc.NewServer(), &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	t.Cleanup(bare.Stop)
	t.Cleanup(func() { _ = web.Close() })
	for name, tc := range map[string]struct {
		socket, says string
		reason       cri.Reason
	}{
		"no socket":     {filepath.Join(dir, "none.sock"), "is the container runtime running", cri.ReasonRuntimeUnavailable},
		"gRPC, no CRI":  {serve("grpc.sock", bare.Serve), "not as a CRI runtime", cri.ReasonRuntimeUnsupported},
		"HTTP":          {serve("http.sock", web.Serve), "not as a CRI runtime", cri.ReasonRuntimeUnsupported},
		"ttrpc":         {c.Socket() + ".t", "did not answer", cri.ReasonRuntimeUnavailable}, // as a runtime that hangs
		"stopped again": {stopped(t), "is the container runtime running", cri.ReasonRuntimeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := cri.Connect(deadline(t), cri.Options{RuntimeEndpoint: tc.socket})
			if err == nil {
				t.Fatal("connected")
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("it took %v to find out", took)
			}
			if !strings.Contains(err.Error(), tc.socket) || !strings.Contains(err.Error(), tc.says) || cri.ReasonOf(err) != tc.reason {
				t.Errorf("%v: reason %s; want %s, the socket, and %q", err, cri.ReasonOf(err), tc.reason, tc.says)
			}
		})
	}
}

// stopped is the socket of a containerd that has ended.
func stopped(t *testing.T) string {
	t.Helper()
	c := harness.NewContainerd(t, harness.ContainerdOptions{})
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	return c.Socket()
}
