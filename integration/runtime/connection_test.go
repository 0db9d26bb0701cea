package runtime_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// Connections that break in the middle of a blob, again and again, cost a request each and nothing else: the fetch goes on
// where it was, and progress does not go back.
func TestConnectionsThatBreak(t *testing.T) {
	for mode, o := range modes() {
		t.Run(mode, func(t *testing.T) {
			n := newNode(t, o)
			built, img := n.push(t, "lab/breaks:1", layers(random(141, 20*kib), random(142, 3*mib)))
			large := built.Layers[1]
			n.reg.Inject(harness.GetBlob(large.Digest), harness.Cut(mib))
			n.pull(t, img)
			n.ready(t, img)
			gets := n.settled(t).Filter(harness.GetBlob(large.Digest))
			if len(gets) < 3 || gets.Bytes() != large.Size {
				t.Errorf("the layer was to come in 3 or more parts, %d bytes in all:\n%s", large.Size, gets)
			}
		})
	}
}

// One layer comes with other bytes than announced. The next pull fetches that layer anew, all of it, and no other: the
// spoiled bytes are not kept for a try that would only find them complete and wrong again.
func TestASpoiledLayerIsFetchedAnew(t *testing.T) {
	for mode, o := range modes() {
		t.Run(mode, func(t *testing.T) {
			n := newNode(t, o)
			built, img := n.push(t, "lab/spoiled:1", layers(random(145, 100*kib), random(146, 2*mib)))
			good, bad := built.Layers[0], built.Layers[1]
			// It comes slowly, so that the other one is complete before.
			heal := n.reg.Inject(harness.GetBlob(bad.Digest), harness.Rate(4*mib), harness.Corrupt(mib))
			_, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Interval: often})
			holdReason(t, "Pull", err, img, cri.ReasonDigestMismatch)
			if !strings.Contains(err.Error(), bad.Digest.String()) {
				t.Errorf("the error does not name the layer %s: %v", bad.Digest, err)
			}
			heal()
			n.settled(t)
			n.reg.Forget()
			n.pull(t, img)
			n.ready(t, img)
			if again, anew := n.fetched(t, good), n.fetched(t, bad); again != 0 || anew != bad.Size {
				t.Errorf("fetched %d bytes of the good layer and %d of the spoiled one, want 0 and %d", again, anew, bad.Size)
			}
		})
	}
}

// A registry that redirects to storage behind it is pulled from like any other (case 5), and the storage gets no
// credentials.
func TestStorageBehindTheRegistry(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	built, img := n.push(t, "lab/redirected:1", layers(random(143, 50*kib), random(144, 60*kib)))
	authorized := make(chan string, 10)
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if a := req.Header.Get("Authorization"); a != "" {
			authorized <- a
		}
		for _, l := range built.Layers {
			if strings.HasSuffix(req.URL.Path, l.Digest.String()) {
				http.ServeFile(w, req, n.reg.BlobPath(l.Digest))
				return
			}
		}
		http.NotFound(w, req)
	}))
	t.Cleanup(storage.Close)
	for _, l := range built.Layers {
		n.reg.Inject(harness.GetBlob(l.Digest), signed(storage.URL))
	}
	n.pull(t, img)
	n.ready(t, img)
	if got := n.settled(t).Filter(harness.GetBlob(built.Layers[0].Digest)); len(got) != 1 || got[0].Status != http.StatusTemporaryRedirect {
		t.Errorf("the registry was to redirect:\n%s", got)
	}
	select {
	case a := <-authorized:
		t.Errorf("the storage got credentials: %s", a)
	default:
	}
}
