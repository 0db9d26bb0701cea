package runtime_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// signature is what nobody may read: with it, everybody could fetch the blob.
const signature = "X-Amz-Signature=topsecret"

// signed redirects to storage behind a registry by a signed URL, as many registries do with blobs and some with manifests.
func signed(storage string) harness.Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, storage+req.URL.Path+"?"+signature+"&X-Amz-Date=1", http.StatusTemporaryRedirect)
		})
	}
}

// The signature of the URL to which a registry redirects is in no error and in no line of our log, whatever the storage
// answers; the storage itself is named.
func TestSignedURLsStayOutOfErrorsAndLogs(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   cri.Reason
	}{
		"forbidden":   {answers(http.StatusForbidden), cri.ReasonUnauthorized},
		"not found":   {answers(http.StatusNotFound), ""}, // differs: an image without its manifest, or without its blob
		"unavailable": {answers(http.StatusServiceUnavailable), cri.ReasonRegistryUnavailable},
		"hangs up":    {hangUp, cri.ReasonRegistryUnavailable},
		"away":        {nil, cri.ReasonRegistryUnavailable},
	} {
		storage := gone.URL
		if tc.answer != nil {
			s := httptest.NewServer(tc.answer)
			t.Cleanup(s.Close)
			storage = s.URL
		}
		for mode, o := range modes() {
			t.Run(name+"/"+mode, func(t *testing.T) {
				n := newNode(t, o)
				var log bytes.Buffer
				n.cri = connect(t, cri.Options{
					RuntimeEndpoint: n.Endpoint(),
					Logger:          slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				})
				_, img := n.push(t, "lab/signed:1", layers(random(131, 20*kib)))
				for _, kind := range []string{"/manifests/", "/blobs/"} {
					heal := n.reg.Inject(harness.Match{Method: http.MethodGet, Path: regexp.MustCompile(kind)}, signed(storage))
					_, rerr := n.cri.Resolve(deadline(t), img.Reference, nil)
					_, perr := tryPull(deadline(t), n.cri, img, cri.PullOptions{Interval: often})
					heal()
					for what, err := range map[string]error{"Resolve": rerr, "Pull": perr} {
						if err == nil || strings.Contains(err.Error(), "topsecret") {
							t.Errorf("%s with redirected %s: %v", what, kind, err)
						}
						if got := cri.ReasonOf(err); tc.want != "" && got != tc.want {
							t.Errorf("%s with redirected %s: reason %s, want %s: %v", what, kind, got, tc.want, err)
						}
					}
				}
				if strings.Contains(log.String(), "topsecret") {
					t.Errorf("the log has the signature:\n%s", &log)
				}
			})
		}
	}
}

func answers(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func hangUp(http.ResponseWriter, *http.Request) {
	panic(http.ErrAbortHandler) //nolint:forbidigo // how net/http hangs up
}
