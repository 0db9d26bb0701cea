package harness_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

const faultSize = 300 << 10

// TestFaults looks at what a client sees of each fault, over HTTP and over HTTPS.
func TestFaults(t *testing.T) {
	cases := map[string]struct {
		faults []harness.Fault
		header []string
		status int
		check  func(t *testing.T, a answer, blob []byte)
	}{
		"none": {status: 200, check: whole},
		"status": {
			faults: []harness.Fault{harness.Status(429, "Retry-After", "2")}, status: 429,
			check: func(t *testing.T, a answer, _ []byte) {
				if a.header.Get("Retry-After") != "2" || !strings.Contains(string(a.body), "TOOMANYREQUESTS") {
					t.Errorf("headers %v, body %s", a.header, a.body)
				}
			},
		},
		"401 without credentials":    {faults: []harness.Fault{harness.BasicAuth("u", "p")}, status: 401, check: challenged},
		"401 with wrong credentials": {faults: []harness.Fault{harness.BasicAuth("u", "p")}, header: basic("u", "x"), status: 401, check: challenged},
		"credentials":                {faults: []harness.Fault{harness.BasicAuth("u", "p")}, header: basic("u", "p"), status: 200, check: whole},
		"range ignored":              {faults: []harness.Fault{harness.IgnoreRange()}, header: []string{"Range", "bytes=9-"}, status: 200, check: whole},
		"range refused":              {faults: []harness.Fault{harness.RefuseRange()}, header: []string{"Range", "bytes=9-"}, status: 416},
		"no range to refuse":         {faults: []harness.Fault{harness.RefuseRange()}, status: 200, check: whole},
		"no length": {
			faults: []harness.Fault{harness.NoLength()}, status: 200,
			check: func(t *testing.T, a answer, blob []byte) {
				whole(t, a, blob)
				if l := a.header.Get("Content-Length"); l != "" {
					t.Errorf("Content-Length is %s", l)
				}
			},
		},
		"corrupt":             {faults: []harness.Fault{harness.Corrupt(100 << 10)}, status: 200, check: differsAt(100 << 10)},
		"corrupt, first byte": {faults: []harness.Fault{harness.Corrupt(0)}, status: 200, check: differsAt(0)},
		"corrupt, last byte":  {faults: []harness.Fault{harness.Corrupt(faultSize - 1)}, status: 200, check: differsAt(faultSize - 1)},
		"corrupt a range": {
			faults: []harness.Fault{harness.Corrupt(1)}, header: []string{"Range", "bytes=10-19"}, status: 206,
			check: func(t *testing.T, a answer, blob []byte) { differsAt(1)(t, a, blob[10:20]) },
		},
		"cut":         {faults: []harness.Fault{harness.Cut(100 << 10)}, status: 200, check: endsAfter(100<<10, io.ErrUnexpectedEOF)},
		"cut at once": {faults: []harness.Fault{harness.Cut(0)}, status: 200, check: endsAfter(0, io.ErrUnexpectedEOF)},
		"cut behind":  {faults: []harness.Fault{harness.Cut(faultSize + 1)}, status: 200, check: whole},
		"cut a slow one": {
			faults: []harness.Fault{harness.Rate(4 << 20), harness.Cut(100<<10 + 1)}, status: 200,
			check: endsAfter(100<<10+1, io.ErrUnexpectedEOF),
		},
		"corrupt and cut":  {faults: []harness.Fault{harness.Corrupt(3), harness.Cut(100 << 10)}, status: 200, check: endsAfter(-1, io.ErrUnexpectedEOF)},
		"stall for a time": {faults: []harness.Fault{harness.Stall(100<<10, closed())}, status: 200, check: whole},
		"hold for a time":  {faults: []harness.Fault{harness.Hold(closed())}, status: 200, check: whole},
		"reset": {
			faults: []harness.Fault{harness.Reset(100 << 10)},
			check: func(t *testing.T, a answer, _ []byte) {
				if !errors.Is(a.err, syscall.ECONNRESET) || len(a.body) > 100<<10 {
					t.Errorf("%d bytes, then %v, want a reset connection", len(a.body), a.err)
				}
			},
		},
		"own": {
			faults: []harness.Fault{func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
			}},
			status: 418,
		},
	}
	for scheme, useTLS := range map[string]bool{"http": false, "https": true} {
		s := serve(t, faultSize, harness.RegistryOptions{TLS: useTLS})
		for name, c := range cases {
			t.Run(scheme+" "+name, func(t *testing.T) {
				s.ended(t)
				s.Forget()
				remove := s.Inject(harness.GetBlob(s.digest), c.faults...)
				defer remove()
				a := s.get(t, c.header...)
				if c.status != 0 && a.status != c.status {
					t.Fatalf("status %d, %v, want %d", a.status, a.err, c.status)
				}
				if c.check != nil {
					c.check(t, a, s.blob)
				}
				if r := s.ended(t)[0]; c.status != 0 && (r.Status != c.status || r.Bytes != int64(len(a.body))) {
					t.Errorf("recorded status %d and %d bytes, the client got %d and %d", r.Status, r.Bytes, a.status, len(a.body))
				}
				remove()
				whole(t, s.get(t), s.blob)
			})
		}
	}
}

func whole(t *testing.T, a answer, blob []byte) {
	t.Helper()
	if a.err != nil || !bytes.Equal(a.body, blob) {
		t.Errorf("%d bytes, %v, want the whole blob", len(a.body), a.err)
	}
}

func challenged(t *testing.T, a answer, _ []byte) {
	t.Helper()
	if got := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
		t.Errorf("WWW-Authenticate: %q, want Basic", got)
	}
}

// differsAt wants the blob with one other byte.
func differsAt(offset int) func(*testing.T, answer, []byte) {
	return func(t *testing.T, a answer, blob []byte) {
		t.Helper()
		if len(a.body) != len(blob) || a.err != nil {
			t.Fatalf("%d bytes, %v, want %d", len(a.body), a.err, len(blob))
		}
		if a.body[offset] == blob[offset] {
			t.Errorf("the byte at %d is as it should be", offset)
		}
		a.body[offset] = blob[offset]
		whole(t, a, blob)
	}
}

// endsAfter wants the body to break off; n < 0 does not look at what came before.
func endsAfter(n int, want error) func(*testing.T, answer, []byte) {
	return func(t *testing.T, a answer, blob []byte) {
		t.Helper()
		if !errors.Is(a.err, want) {
			t.Errorf("the body ended with %v, want %v", a.err, want)
		}
		if n >= 0 && !bytes.Equal(a.body, blob[:n]) {
			t.Errorf("%d bytes came before that, want the first %d", len(a.body), n)
		}
	}
}

func basic(user, password string) []string {
	req := http.Request{Header: http.Header{}}
	req.SetBasicAuth(user, password)
	return []string{"Authorization", req.Header.Get("Authorization")}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// TestFaultTime holds that latency and rate take their time, and that a rate is one of each connection.
func TestFaultTime(t *testing.T) {
	s := serve(t, faultSize, harness.RegistryOptions{})
	const latency, rate = 100 * time.Millisecond, 2 * faultSize // half a second for the blob
	took := func(connections int, f harness.Fault) time.Duration {
		defer s.Inject(harness.GetBlob(s.digest), f)()
		start := time.Now()
		done := make(chan answer)
		for range connections {
			go func() { done <- s.get(t) }()
		}
		for range connections {
			whole(t, <-done, s.blob)
		}
		return time.Since(start)
	}
	if d := took(1, harness.Latency(latency)); d < latency {
		t.Errorf("a latency of %v took %v", latency, d)
	}
	one, four := took(1, harness.Rate(rate)), took(4, harness.Rate(rate))
	if one < 400*time.Millisecond {
		t.Errorf("half a second's worth of bytes took %v", one)
	}
	if four > 2*one {
		t.Errorf("one connection took %v, four side by side %v, want about the same", one, four)
	}
}

// TestFaultStall holds that what came before a stall is there, that it ends when it is told to, and that a client which
// goes away ends it too.
func TestFaultStall(t *testing.T) {
	s := serve(t, faultSize, harness.RegistryOptions{})
	const at = 1000
	stalled := func(l harness.Requests) bool { return l.Bytes() >= at }

	release := make(chan struct{})
	remove := s.Inject(harness.GetBlob(s.digest), harness.Stall(at, release))
	done := make(chan answer)
	go func() { done <- s.get(t) }()
	if err := s.Wait(t.Context(), stalled); err != nil {
		t.Fatal(err)
	}
	if got := s.Served(s.digest); got != at {
		t.Errorf("%d bytes were sent before the stall, want %d", got, at)
	}
	close(release)
	whole(t, <-done, s.blob)
	remove()

	for name, f := range map[string]harness.Fault{
		"stall": harness.Stall(at, nil), "hold": harness.Hold(nil), "latency": harness.Latency(time.Hour), "rate": harness.Rate(1),
	} {
		t.Run(name, func(t *testing.T) {
			s.ended(t)
			s.Forget()
			defer s.Inject(harness.GetBlob(s.digest), f)()
			ctx, cancel := context.WithCancel(t.Context())
			go func() { done <- s.do(t, ctx, http.MethodGet, s.digest) }()
			if err := s.Wait(t.Context(), func(l harness.Requests) bool { return len(l) == 1 }); err != nil {
				t.Error(err)
			}
			cancel()
			if a := <-done; !errors.Is(a.err, context.Canceled) {
				t.Errorf("the client ended with %v, want %v", a.err, context.Canceled)
			}
			s.ended(t)
		})
	}
}

// TestInject counts which of several requests a fault hits, and in which order faults lie around each other.
func TestInject(t *testing.T) {
	s := serve(t, 10, harness.RegistryOptions{})
	cases := map[string]struct {
		match harness.Match
		want  []int
	}{
		"all":         {match: harness.Match{}, want: []int{503, 503, 503, 503}},
		"two":         {match: harness.GetBlob(s.digest).First(2), want: []int{503, 503, 200, 200}},
		"after one":   {match: harness.GetBlob("").After(1), want: []int{200, 503, 503, 503}},
		"the second":  {match: harness.GetBlob("").After(1).First(1), want: []int{200, 503, 200, 200}},
		"other verb":  {match: harness.Match{Method: http.MethodHead}, want: []int{200, 200, 200, 200}},
		"other path":  {match: harness.Manifests(), want: []int{200, 200, 200, 200}},
		"other blob":  {match: harness.GetBlob("sha256:0"), want: []int{200, 200, 200, 200}},
		"never again": {match: harness.GetBlob("").First(1), want: []int{503, 200, 200, 200}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			defer s.Inject(c.match, harness.Status(503))()
			for i, want := range c.want {
				if a := s.get(t); a.status != want {
					t.Errorf("request %d: %d, want %d", i, a.status, want)
				}
			}
		})
	}

	var calls atomic.Int32
	count := harness.Before(func(*http.Request) { calls.Add(1) })
	defer s.Inject(harness.Match{}, count, harness.Status(403), count)()
	defer s.Inject(harness.Match{}, count)()
	if a := s.get(t); a.status != 403 || calls.Load() != 1 {
		t.Errorf("status %d after %d calls; the first fault is the outermost, and what lies within a refusal is not reached", a.status, calls.Load())
	}
}

// TestRedirect sends the client to a second registry.
func TestRedirect(t *testing.T) {
	s := serve(t, faultSize, harness.RegistryOptions{})
	other := serve(t, faultSize, harness.RegistryOptions{})
	defer s.Inject(harness.GetBlob(""), harness.Redirect(other.URL()))()
	whole(t, s.get(t), s.blob)
	if got := other.Served(s.digest); got != faultSize {
		t.Errorf("the other registry sent %d bytes, want %d", got, faultSize)
	}
}
