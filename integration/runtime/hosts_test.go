package runtime_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// A registry whose certificate nobody here knows is refused by us and by containerd, for the same reason; with its
// authority in hosts.toml both trust it.
func TestCertificates(t *testing.T) {
	for mode, o := range modes() {
		t.Run(mode, func(t *testing.T) {
			o.RegistryConfigPath = t.TempDir()
			n := joinNode(t, harness.NewRegistry(t, harness.RegistryOptions{TLS: true}), o)
			built, ref := harness.Push(t, n.reg, "lab/tls:1", layers(random(121, 50*kib)))
			hosts := filepath.Join(o.RegistryConfigPath, n.reg.Host())
			if err := os.MkdirAll(hosts, 0o755); err != nil {
				t.Fatal(err)
			}
			bare := fmt.Sprintf("server = %q\n", n.reg.URL())
			if err := os.WriteFile(filepath.Join(hosts, "hosts.toml"), []byte(bare), 0o600); err != nil {
				t.Fatal(err)
			}
			img := cri.Image{Reference: parse(t, ref)}
			_, err := n.cri.Resolve(deadline(t), img.Reference, nil)
			holdReason(t, "Resolve", err, img, cri.ReasonCertificateInvalid)

			if err := n.reg.WriteHosts(o.RegistryConfigPath, n.reg.Host()); err != nil {
				t.Fatal(err)
			}
			img = n.resolve(t, ref)
			if err := os.WriteFile(filepath.Join(hosts, "hosts.toml"), []byte(bare), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = tryPull(deadline(t), n.cri, img, cri.PullOptions{Interval: often})
			holdReason(t, "Pull", err, img, cri.ReasonCertificateInvalid)

			if err := n.reg.WriteHosts(o.RegistryConfigPath, n.reg.Host()); err != nil {
				t.Fatal(err)
			}
			n.pull(t, img)
			n.ready(t, img)
			if got := n.fetched(t, built.Layers...); got != sum(built.Layers...) {
				t.Errorf("fetched %d bytes, want %d", got, sum(built.Layers...))
			}
		})
	}
}

// A mirror that hosts.toml names gets all requests for a registry that does not exist, ours and containerd's.
func TestAMirror(t *testing.T) {
	const upstream = "upstream.invalid:5000"
	for mode, o := range modes() {
		t.Run(mode, func(t *testing.T) {
			o.RegistryConfigPath = t.TempDir()
			n := newNode(t, o)
			if err := n.reg.WriteHosts(o.RegistryConfigPath, upstream); err != nil {
				t.Fatal(err)
			}
			built, _ := harness.Push(t, n.reg, "lab/mirrored:1", layers(random(122, 50*kib)))
			var mu sync.Mutex
			asked := map[string]int{}
			n.reg.Inject(harness.Match{}, harness.Before(func(r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				asked[r.URL.Query().Get("ns")]++
			}))
			img := n.resolve(t, upstream+"/lab/mirrored:1")
			n.pull(t, img)
			n.ready(t, img)
			if got := n.fetched(t, built.Layers...); got != sum(built.Layers...) {
				t.Errorf("the mirror sent %d bytes, want %d", got, sum(built.Layers...))
			}
			mu.Lock()
			defer mu.Unlock()
			if asked[upstream] < 5 || len(asked) != 1 {
				t.Errorf("requests by the registry that they are meant for: %v, want %s alone", asked, upstream)
			}
		})
	}
}
