package runtime_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// empty answers as if all were well, and sends nothing.
func empty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(mute{w}, r)
	})
}

type mute struct{ http.ResponseWriter }

func (m mute) Write([]byte) (int, error) { return 0, http.ErrAbortHandler }

// Case 19: what a mirror promises and does not keep. Where another registry has it, the pull goes well; where it does not, the
// reason is the registry's, and the next try may go well.
func TestMirrorsThatAreBroken(t *testing.T) {
	get := harness.Manifests()
	get.Method = http.MethodGet
	for name, c := range map[string]struct {
		match harness.Match
		fault harness.Fault
		well  bool
	}{
		"has the tag and not the manifest":    {get, harness.Status(http.StatusNotFound), true},
		"has no layers":                       {harness.GetBlob(""), harness.Status(http.StatusNotFound), true},
		"is overloaded":                       {harness.Match{}, harness.Status(http.StatusServiceUnavailable), true},
		"sends nothing of a manifest":         {get, empty, false},
		"sends nothing of a layer":            {harness.GetBlob(""), empty, false},
		"has it and breaks off in the middle": {harness.GetBlob(""), harness.Cut(10 * kib), true},
	} {
		t.Run(name, func(t *testing.T) {
			mirror, upstream := harness.NewRegistry(t, harness.RegistryOptions{}), harness.NewRegistry(t, harness.RegistryOptions{})
			certsD := harness.Dir(t)
			writeFile(t, filepath.Join(certsD, upstream.Host(), "hosts.toml"),
				fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", upstream.URL(), mirror.URL()))
			n := joinNode(t, upstream, harness.ContainerdOptions{RegistryConfigPath: certsD})
			spec := layers(random(161, 100*kib))
			if err := harness.Image(t, spec).Push(mirror, "lab/m", "1"); err != nil {
				t.Fatal(err)
			}
			_, ref := harness.Push(t, upstream, "lab/m:1", spec)
			remove := mirror.Inject(c.match, c.fault)
			img, err := n.cri.Resolve(deadline(t), parse(t, ref), nil)
			if err == nil {
				_, err = tryPull(deadline(t), n.cri, img, cri.PullOptions{})
			}
			if len(mirror.Requests()) == 0 {
				t.Error("the mirror was not asked: this test shows nothing")
			}
			if !c.well && err != nil {
				if reason := cri.ReasonOf(err); reason.Permanent() || reason == cri.ReasonPullFailed {
					t.Errorf("%s: %v; want a reason that may pass", reason, err)
				}
				remove()
				img = n.resolve(t, ref)
				_, err = tryPull(deadline(t), n.cri, img, cri.PullOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			n.ready(t, img)
		})
	}
}
