package runtime_test

import (
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/cri/critest"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// The suite that the fake runtime passes too.
func TestConformance(t *testing.T) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, o)
			_, img := n.push(t, "lab/conformance:1", layers(random(21, 100*kib), random(22, 200*kib)))
			critest.Conformance(t, critest.Subject{
				Runtime: n.cri, Image: img,
				Remove: func(t *testing.T, ref cri.Reference) { t.Helper(); n.crictl(t, "rmi", ref.String()) },
				Hang: func(t *testing.T) {
					t.Helper()
					t.Cleanup(n.reg.Inject(harness.GetBlob(""), harness.Hold(nil)))
				},
			})
		})
	}
}
