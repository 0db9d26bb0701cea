package cri_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/cri/critest"
)

func image(t *testing.T, ref string) cri.Image {
	t.Helper()
	r, err := cri.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	return cri.Image{
		Reference: r, Digest: digest.FromString(ref), Config: digest.FromString("config of " + ref),
		Layers: []cri.Layer{{Digest: digest.FromString("layer"), Size: 1000, ChainID: digest.FromString("chain")}},
	}
}

func connect(t *testing.T, endpoint string) *cri.Runtime {
	t.Helper()
	r, err := cri.Connect(t.Context(), cri.Options{RuntimeEndpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestConformanceOfTheFake(t *testing.T) {
	t.Parallel()
	f := critest.Start(t)
	img := image(t, "reg.example/app:1")
	f.Offer(img)
	critest.Conformance(t, critest.Subject{
		Runtime: connect(t, f.Socket), Image: img,
		Remove: func(_ *testing.T, ref cri.Reference) { f.Remove(ref) },
		Hang:   func(t *testing.T) { t.Cleanup(f.Block("PullImage")) },
	})
}

func TestARuntimeWithoutNativeAPIIsUsedAsFarAsItGoes(t *testing.T) {
	t.Parallel()
	f := critest.Start(t)
	img := image(t, "reg.example/app:1")
	f.Offer(img)
	r := connect(t, f.Socket)
	if got := r.Info(); got.Name != "fake" || got.Detail != cri.DetailUnavailable || got.RegistryConfigPath == "" {
		t.Errorf("info %+v", got)
	}
	for p, err := range r.Pull(t.Context(), img, cri.PullOptions{Name: "app"}) {
		if err != nil || p.Image != "app" || p.Detail != cri.DetailUnavailable || p.Layers != nil || p.Bytes.Fetched != 0 {
			t.Errorf("progress %+v, %v: claims to know what the runtime does not tell", p, err)
		}
	}
	plan, err := r.Plan(t.Context(), img)
	if err != nil || plan.Fetch != 0 || plan.Disk == nil || plan.Disk.Total <= plan.Disk.Free {
		t.Errorf("plan of a present image: %+v, disk %+v, %v", plan, plan.Disk, err)
	}
	for _, err := range r.Events(t.Context()) {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("events: %v, want ErrUnsupported", err)
		}
	}
}

func TestThePullsErrorHasAReason(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]cri.Reason{
		`failed to copy: httpReadSeeker: failed open: unexpected status code http://r/v2/a/blobs/x: 503 Service Unavailable`:               cri.ReasonRegistryUnavailable,
		`failed to resolve reference "r/a:1": unexpected status from HEAD request to http://r/v2/a/manifests/1: 429 Too Many Requests`:     cri.ReasonRateLimited,
		`failed to resolve reference "r/a:1": pull access denied, repository does not exist or may require authorization: 401`:             cri.ReasonUnauthorized,
		`failed to do request: Head "https://r/v2/a/manifests/1": dial tcp: lookup r: no such host`:                                        cri.ReasonUnknownHost,
		`failed to do request: Head "https://r/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority`:     cri.ReasonCertificateInvalid,
		`failed to extract layer sha256:00: mount callback failed: write /x: no space left on device`:                                      cri.ReasonDiskFull,
		`failed to extract layer sha256:00: write /a/b: input/output error`:                                                                cri.ReasonPullFailed,
		`failed to extract layer sha256:00: mount callback failed: open /a: read-only file system`:                                         cri.ReasonPullFailed,
		`failed to apply: fork/exec /usr/bin/unpigz: cannot allocate memory`:                                                               cri.ReasonPullFailed,
		`failed to extract layer sha256:00: failed to stat snapshot sha256:01: not found`:                                                  cri.ReasonPullFailed,
		`failed to extract layer sha256:00: write /a/b: no space left on device`:                                                           cri.ReasonDiskFull,
		`failed to extract layer sha256:00: archive/tar: invalid tar header`:                                                               cri.ReasonInvalidLayer,
		`failed commit on ref "layer-sha256:00": unexpected commit digest sha256:11, expected sha256:00: failed precondition`:              cri.ReasonDigestMismatch,
		`connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused`: cri.ReasonRuntimeUnavailable,
		`something never heard of`: cri.ReasonPullFailed,
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			f := critest.Start(t)
			img := image(t, "reg.example/app:1")
			f.Fail("PullImage", status.Error(codes.Unknown, words))
			var got error
			for _, err := range connect(t, f.Socket).Pull(t.Context(), img, cri.PullOptions{}) {
				got = err
			}
			if cri.ReasonOf(got) != want || !strings.Contains(got.Error(), words) || !strings.Contains(got.Error(), "reg.example/app:1") {
				t.Errorf("%v: reason %s, want %s, with the runtime's words and the reference", got, cri.ReasonOf(got), want)
			}
		})
	}
}

func TestSignedURLsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	f := critest.Start(t)
	f.Fail("PullImage", status.Error(codes.Unknown, `failed open: unexpected status code https://storage.example/blob?X-Amz-Signature=topsecret&x=1: 403 Forbidden`))
	for _, err := range connect(t, f.Socket).Pull(t.Context(), image(t, "reg.example/app:1"), cri.PullOptions{}) {
		if err != nil && (strings.Contains(err.Error(), "topsecret") || !strings.Contains(err.Error(), "https://storage.example/blob?…")) {
			t.Errorf("error shows the signature, or hides the host: %v", err)
		}
	}
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listen := func(name string) net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	grpcServer, httpServer := grpc.NewServer(), &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	gl, hl, dead := listen("grpc.sock"), listen("http.sock"), listen("dead.sock")
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = grpcServer.Serve(gl) }()
	go func() { _ = httpServer.Serve(hl) }()
	t.Cleanup(grpcServer.Stop)
	t.Cleanup(func() { _ = httpServer.Close() })
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		endpoint, says string
		reason         cri.Reason
	}{
		"missing":        {"unix://" + dir + "/none.sock", "is the container runtime running", cri.ReasonRuntimeUnavailable},
		"nobody there":   {dir + "/dead.sock", "nothing listens", cri.ReasonRuntimeUnavailable},
		"no socket":      {dir + "/file", "/file", cri.ReasonRuntimeUnavailable},
		"relative":       {"run/containerd.sock", "unix:///run/containerd/containerd.sock", cri.ReasonRuntimeUnavailable},
		"another grpc":   {dir + "/grpc.sock", "not as a CRI runtime", cri.ReasonRuntimeUnsupported},
		"an http server": {dir + "/http.sock", "not as a CRI runtime", cri.ReasonRuntimeUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r, err := cri.Connect(ctx, cri.Options{RuntimeEndpoint: tc.endpoint})
			if err == nil {
				t.Fatalf("connected: %+v", r.Info())
			}
			if cri.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v: reason %s; want %s and %q", err, cri.ReasonOf(err), tc.reason, tc.says)
			}
		})
	}
}

func TestConnectTriesTheWellKnownSocketsAndListsThem(t *testing.T) {
	t.Setenv(cri.EnvRuntimeEndpoint, "")
	r, err := cri.Connect(t.Context(), cri.Options{})
	if err == nil { // this machine has a container runtime
		if !slices.Contains(cri.WellKnownEndpoints(), r.Info().Endpoint) {
			t.Errorf("connected to %s, which is none of the well-known sockets", r.Info().Endpoint)
		}
		return
	}
	for _, e := range cri.WellKnownEndpoints() {
		if !strings.Contains(err.Error(), strings.TrimPrefix(e, "unix://")) {
			t.Errorf("the error does not name %s: %v", e, err)
		}
	}
	if !strings.Contains(err.Error(), "--runtime-endpoint") {
		t.Errorf("no remedy: %v", err)
	}
}

func TestTheEnvironmentNamesTheSockets(t *testing.T) {
	runtime, images := critest.Start(t), critest.Start(t)
	t.Setenv(cri.EnvRuntimeEndpoint, runtime.Socket)
	t.Setenv(cri.EnvImageEndpoint, images.Socket)
	r := connect(t, "")
	if r.Info().Endpoint != runtime.Socket || r.Info().ImageEndpoint != images.Socket {
		t.Errorf("info %+v", r.Info())
	}
	img := image(t, "reg.example/app:1")
	images.Offer(img)
	for _, err := range r.Pull(t.Context(), img, cri.PullOptions{}) {
		if err != nil {
			t.Errorf("the pull did not go to the image endpoint: %v", err)
		}
	}
}
