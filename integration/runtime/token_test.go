package runtime_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// tokenServer gives bearer tokens to who knows the password, each good for some requests.
type tokenServer struct {
	*httptest.Server

	mu    sync.Mutex
	given int
	left  map[string]int
	// answer is what it says beside the token.
	answer map[string]any
	field  string
}

func newTokenServer(t *testing.T, field string, answer map[string]any) *tokenServer {
	t.Helper()
	s := &tokenServer{left: map[string]int{}, answer: answer, field: field}
	s.Server = httptest.NewServer(http.HandlerFunc(s.give))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) give(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && s.field == "token" { // the older protocol, which knows GET alone
		http.Error(w, "GET", http.StatusMethodNotAllowed)
		return
	}
	user, password, _ := r.BasicAuth()
	if r.Method == http.MethodPost {
		user, password = r.PostFormValue("username"), r.PostFormValue("password")
	}
	if user != "u" || password != "p" {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given++
	token := fmt.Sprintf("token-%d", s.given)
	s.left[token] = 2
	answer := map[string]any{s.field: token}
	maps.Copy(answer, s.answer)
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone away
}

// guard lets only requests with a token pass that is still good.
func (s *tokenServer) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		good := s.left[token] > 0
		s.left[token]--
		s.mu.Unlock()
		if good {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="lab",scope="repository:lab/private:pull",error="invalid_token"`, s.URL))
		w.WriteHeader(http.StatusUnauthorized)
	})
}

// Case 10: a registry whose tokens end in the middle of a pull is asked for new ones, whatever it says of their life.
func TestTokensThatEndInThePull(t *testing.T) {
	for name, c := range map[string]struct {
		field  string
		answer map[string]any
	}{
		"token": {"token", nil}, "access_token": {"access_token", nil}, "short": {"token", map[string]any{"expires_in": 5}}, "long": {"token", map[string]any{"expires_in": 3600}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, harness.ContainerdOptions{})
			_, img := n.push(t, "lab/private:1", layers(
				random(131, 50*kib), random(132, 50*kib), random(133, 50*kib), random(134, 50*kib), random(135, 50*kib), random(136, 50*kib)))
			s := newTokenServer(t, c.field, c.answer)
			n.reg.Inject(harness.Match{}, s.guard)
			secret := &cri.Credential{Username: "u", Password: "p"}
			if _, err := n.cri.Resolve(deadline(t), img.Reference, &cri.Credential{Username: "u", Password: "wrong"}); cri.ReasonOf(err) != cri.ReasonUnauthorized {
				t.Errorf("Resolve with a wrong password: %v", err)
			}
			again, err := n.cri.Resolve(deadline(t), img.Reference, secret)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tryPull(deadline(t), n.cri, again, cri.PullOptions{Credential: secret}); err != nil {
				t.Fatal(err)
			}
			n.ready(t, img)
		})
	}
}

// Case 9: a registry that limits requests is told by name, at each place where it may do so; what was fetched is kept.
func TestARegistryThatLimits(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{MaxConcurrentDownloads: 1})
	built, img := n.push(t, "lab/limited:1", layers(random(141, 100*kib), random(142, 100*kib), random(143, 100*kib)))
	limit := harness.Status(http.StatusTooManyRequests, "Retry-After", "2")
	remove := n.reg.Inject(harness.Manifests(), limit)
	_, err := n.cri.Resolve(deadline(t), img.Reference, nil)
	holdReason(t, "Resolve", err, img, cri.ReasonRateLimited)
	remove()
	remove = n.reg.Inject(harness.GetBlob(built.Layers[2].Digest), limit)
	_, err = tryPull(deadline(t), n.cri, img, cri.PullOptions{Name: "limited"})
	holdReason(t, "Pull", err, img, cri.ReasonRateLimited)
	if cri.ReasonOf(err).Permanent() {
		t.Error("a limit counts as permanent")
	}
	remove()
	if _, err = tryPull(deadline(t), n.cri, img, cri.PullOptions{Name: "limited"}); err != nil {
		t.Fatal(err)
	}
	// One layer may have been on its way when the pull ended, and refusals have bodies too.
	if sent, most := n.fetched(t, built.Layers...), sum(built.Layers...)+built.Layers[0].Size+10*kib; sent > most {
		t.Errorf("%d bytes were sent, want at most %d", sent, most)
	}
	n.ready(t, img)
}

// Case 13: registries whose HEAD says little, or is not there, are asked with GET; where it is good nothing else is asked of
// what is here already.
func TestHeadOfManifests(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/head:1", layers(random(151, 100*kib)))
	n.pull(t, img)
	n.reg.Forget()
	for range 10 {
		if _, err := n.cri.Resolve(deadline(t), img.Reference, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range n.settled(t) {
		if r.Method != http.MethodHead {
			t.Errorf("%s %s: want HEAD alone, which registries do not count", r.Method, r.Path)
		}
	}
	head := harness.Manifests()
	head.Method = http.MethodHead
	for name, fault := range map[string]harness.Fault{
		"no digest": func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(hiding{w}, r)
			})
		},
		"not allowed": harness.Status(http.StatusMethodNotAllowed),
	} {
		remove := n.reg.Inject(head, fault)
		if got, err := n.cri.Resolve(deadline(t), img.Reference, nil); err != nil || got.Digest != img.Digest {
			t.Errorf("%s: %s, %v; want %s", name, got.Digest, err, img.Digest)
		}
		remove()
	}
}

// hiding leaves the digest out of the headers.
type hiding struct{ http.ResponseWriter }

func (h hiding) WriteHeader(code int) {
	h.Header().Del("Docker-Content-Digest")
	h.ResponseWriter.WriteHeader(code)
}
