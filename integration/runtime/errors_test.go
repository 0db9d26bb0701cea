package runtime_test

import (
	"context"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// trouble is something that goes wrong at a registry, and what we call it.
type trouble struct {
	// manifests and blobs are faults in answers about one and the other.
	manifests, blobs []harness.Fault
	// remove takes something out of the registry.
	remove func(r *harness.Registry, repository string, img *images.Image) error
	// resolve and pull are the reasons of either; empty where it goes well.
	resolve, pull cri.Reason
}

func troubles() map[string]trouble {
	f := func(faults ...harness.Fault) []harness.Fault { return faults }
	return map[string]trouble{
		"no credentials":     {manifests: f(harness.BasicAuth("u", "p")), resolve: cri.ReasonUnauthorized, pull: cri.ReasonUnauthorized},
		"forbidden":          {manifests: f(harness.Status(403)), resolve: cri.ReasonUnauthorized, pull: cri.ReasonUnauthorized},
		"forbidden blobs":    {blobs: f(harness.Status(403)), resolve: cri.ReasonUnauthorized, pull: cri.ReasonUnauthorized},
		"rate limit":         {manifests: f(harness.Status(429, "Retry-After", "1")), resolve: cri.ReasonRateLimited, pull: cri.ReasonRateLimited},
		"rate limit, blobs":  {blobs: f(harness.Status(429, "Retry-After", "1")), resolve: cri.ReasonRateLimited, pull: cri.ReasonRateLimited},
		"overloaded":         {manifests: f(harness.Status(503)), resolve: cri.ReasonRegistryUnavailable, pull: cri.ReasonRegistryUnavailable},
		"overloaded, blobs":  {blobs: f(harness.Status(503)), resolve: cri.ReasonRegistryUnavailable, pull: cri.ReasonRegistryUnavailable},
		"broken":             {manifests: f(harness.Status(500)), resolve: cri.ReasonRegistryUnavailable, pull: cri.ReasonRegistryUnavailable},
		"bad gateway, blobs": {blobs: f(harness.Status(502)), resolve: cri.ReasonRegistryUnavailable, pull: cri.ReasonRegistryUnavailable},
		"hangs up at once":   {blobs: f(harness.Cut(0)), resolve: cri.ReasonRegistryUnavailable, pull: cri.ReasonRegistryUnavailable},
		"resets":             {blobs: f(harness.Reset(50)), resolve: cri.ReasonRegistryUnavailable, pull: cri.ReasonRegistryUnavailable},
		"resets at once":     {manifests: f(harness.Reset(0)), resolve: cri.ReasonRegistryUnavailable, pull: cri.ReasonRegistryUnavailable},
		"other bytes":        {blobs: f(harness.Corrupt(30)), resolve: cri.ReasonDigestMismatch, pull: cri.ReasonDigestMismatch},
		"other manifest":     {manifests: f(harness.Corrupt(30)), resolve: cri.ReasonDigestMismatch, pull: cri.ReasonDigestMismatch},
		"no such tag": {
			remove: func(r *harness.Registry, repository string, _ *images.Image) error {
				return r.DeleteManifest(repository, "1")
			},
			resolve: cri.ReasonImageNotFound, pull: cri.ReasonImageNotFound,
		},
		"layer is gone": {
			remove: func(r *harness.Registry, _ string, img *images.Image) error {
				return r.DeleteBlob(img.Layers[1].Digest)
			},
			pull: cri.ReasonImageNotFound,
		},
	}
}

// Whatever goes wrong at the registry has its reason, whether we ask or containerd does, and the error names the reference
// and says what to do. Once it is over, the same image is pulled.
func TestTroubleAtTheRegistry(t *testing.T) {
	for mode, o := range modes() {
		t.Run(mode, func(t *testing.T) {
			n := newNode(t, o)
			seed := uint64(1100)
			for name, tc := range troubles() {
				t.Run(name, func(t *testing.T) {
					seed += 2
					repository := "lab/" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
					built, img := n.push(t, repository+":1", layers(random(seed, 20*kib), random(seed+1, 30*kib)))
					heal := n.inject(t, repository, tc, built)

					_, err := n.cri.Resolve(deadline(t), img.Reference, nil)
					holdReason(t, "Resolve", err, img, tc.resolve)
					seen, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Interval: often})
					holdReason(t, "Pull", err, img, tc.pull)
					holdProgress(t, img, seen)
					n.notReady(t, img, cri.ErrNotPresent)

					heal()
					if err := built.Push(n.reg, repository, "1"); err != nil {
						t.Fatal(err)
					}
					n.pull(t, img)
					n.ready(t, img)
				})
			}
		})
	}
}

// inject makes the trouble for one repository, until heal is called.
func (n *node) inject(t *testing.T, repository string, tc trouble, img *images.Image) (heal func()) {
	t.Helper()
	if tc.remove != nil {
		if err := tc.remove(n.reg, repository, img); err != nil {
			t.Fatal(err)
		}
	}
	var heals []func()
	for kind, faults := range map[string][]harness.Fault{"/manifests/": tc.manifests, "/blobs/": tc.blobs} {
		if len(faults) > 0 {
			heals = append(heals, n.reg.Inject(harness.Match{Path: regexp.MustCompile("/" + repository + kind)}, faults...))
		}
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}

func holdReason(t *testing.T, what string, err error, img cri.Image, want cri.Reason) {
	t.Helper()
	if got := cri.ReasonOf(err); got != want {
		t.Errorf("%s: reason %q, want %q: %v", what, got, want, err)
	}
	if err != nil && (!strings.Contains(err.Error(), img.Reference.String()) || !strings.Contains(err.Error(), " (")) {
		t.Errorf("%s: the error has no reference or no remedy: %v", what, err)
	}
}

// Nothing listens at the registry's address.
func TestTheRegistryIsAway(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/away:1", layers(random(111, 20*kib)))
	if err := n.reg.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := n.cri.Resolve(deadline(t), img.Reference, nil)
	holdReason(t, "Resolve", err, img, cri.ReasonRegistryUnavailable)
	_, err = tryPull(deadline(t), n.cri, img, cri.PullOptions{Interval: often})
	holdReason(t, "Pull", err, img, cri.ReasonRegistryUnavailable)
}

// The registry's name does not resolve. The name server is the test's own, so that the machine's is of no account.
func TestTheRegistrysNameIsUnknown(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	server := nameServer(t)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server)
	}}
	t.Cleanup(func() { net.DefaultResolver = before })
	img := cri.Image{Reference: parse(t, "registry.invalid/lab/a:1")}
	_, err := n.cri.Resolve(deadline(t), img.Reference, nil)
	holdReason(t, "Resolve", err, img, cri.ReasonUnknownHost)
}

// nameServer answers that no name exists (RFC 1035, 4.1.1: RCODE 3), and gives its address.
func nameServer(t *testing.T) string {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			buf[2] |= 0x80             // an answer
			buf[3] = buf[3]&0xf0 | 0x3 // the name does not exist
			buf[10], buf[11] = 0, 0    // nothing additional
			end := size
			if i := questionEnd(buf[:size]); i > 0 {
				end = i
			}
			_, _ = conn.WriteTo(buf[:end], from)
		}
	}()
	return conn.LocalAddr().String()
}

// questionEnd is where the one question of a query ends; what follows is additional.
func questionEnd(query []byte) int {
	i := 12
	for i < len(query) && query[i] != 0 {
		i += int(query[i]) + 1
	}
	return i + 5
}
