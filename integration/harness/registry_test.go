package harness_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

// served is a registry with one blob, and a client.
type served struct {
	*harness.Registry

	client *http.Client
	digest digest.Digest
	blob   []byte
}

func serve(t *testing.T, size int, o harness.RegistryOptions) served {
	t.Helper()
	s := served{Registry: harness.NewRegistry(t, o), client: &http.Client{Timeout: 20 * time.Second}}
	s.blob = make([]byte, size)
	for i := range s.blob {
		s.blob[i] = byte(i * 7)
	}
	s.digest = digest.FromBytes(s.blob)
	file := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(file, s.blob, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.PutBlob(s.digest, file); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	if s.CA != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(s.CA)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	s.client.Transport = transport
	t.Cleanup(transport.CloseIdleConnections)
	return s
}

// answer is what a client got; err is an error in the middle of the body.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func (s served) get(t *testing.T, header ...string) answer {
	t.Helper()
	return s.do(t, t.Context(), http.MethodGet, s.digest, header...)
}

func (s served) do(t *testing.T, ctx context.Context, method string, d digest.Digest, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.URL()+"/v2/lab/c/blobs/"+d.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: body, err: err}
}

// ended waits until the registry has recorded the end of all its answers, which is a little after the client has them.
func (s served) ended(t *testing.T) harness.Requests {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var all harness.Requests
	err := s.Wait(ctx, func(l harness.Requests) bool {
		all = l
		for _, r := range l {
			if !r.Done {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRegistryRanges(t *testing.T) {
	const size = 3<<20 + 17
	cases := map[string]struct {
		method, header string
		status         int
		from, to       int
	}{
		"whole":         {status: 200, to: size},
		"open":          {header: "bytes=1000-", status: 206, from: 1000, to: size},
		"closed":        {header: "bytes=5-9", status: 206, from: 5, to: 10},
		"last":          {header: "bytes=-7", status: 206, from: size - 7, to: size},
		"first":         {header: "bytes=0-0", status: 206, to: 1},
		"behind":        {header: fmt.Sprintf("bytes=%d-", size), status: 416},
		"head":          {method: http.MethodHead, status: 200},
		"head of range": {method: http.MethodHead, header: "bytes=1-", status: 206},
	}
	for name, useTLS := range map[string]bool{"http": false, "https": true} {
		s := serve(t, size, harness.RegistryOptions{TLS: useTLS})
		for what, c := range cases {
			t.Run(name+" "+what, func(t *testing.T) {
				s.ended(t)
				s.Forget()
				method := c.method
				if method == "" {
					method = http.MethodGet
				}
				var header []string
				if c.header != "" {
					header = []string{"Range", c.header, "Authorization", "Basic eDp5"}
				}
				a := s.do(t, t.Context(), method, s.digest, header...)
				if a.err != nil || a.status != c.status {
					t.Fatalf("status %d, %v, want %d", a.status, a.err, c.status)
				}
				if c.status < 400 && !bytes.Equal(a.body, s.blob[c.from:c.to]) {
					t.Errorf("got %d bytes, want those from %d to %d", len(a.body), c.from, c.to)
				}
				r := s.ended(t)[0]
				if r.Method != method || r.Range != c.header || r.Status != c.status || r.Bytes != int64(len(a.body)) ||
					(r.Authorization == "Basic") != (header != nil) {
					t.Errorf("recorded %+v, the client got %d bytes", r, len(a.body))
				}
				if want := r.Bytes; method == http.MethodGet && s.Served(s.digest) != want {
					t.Errorf("served %d bytes, want %d", s.Served(s.digest), want)
				}
			})
		}
	}
}

func TestRegistryContent(t *testing.T) {
	s := serve(t, 100, harness.RegistryOptions{})
	if a := s.get(t); a.header.Get("Docker-Content-Digest") != s.digest.String() {
		t.Errorf("headers %v, want the digest", a.header)
	}
	if a := s.do(t, t.Context(), http.MethodGet, digest.FromString("nothing")); a.status != 404 || !strings.Contains(string(a.body), "BLOB_UNKNOWN") {
		t.Errorf("an unknown blob: %d %s, want 404 BLOB_UNKNOWN", a.status, a.body)
	}
	if err := s.DeleteBlob(s.digest); err != nil {
		t.Fatal(err)
	}
	if a := s.get(t); a.status != 404 {
		t.Errorf("a removed blob: %d, want 404", a.status)
	}
	index := fmt.Sprintf(`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q}]}`, s.digest)
	if err := s.PutManifest("lab/c", "1", "application/vnd.oci.image.index.v1+json", []byte(index)); err == nil {
		t.Error("an index that names what is not there was taken")
	}
	if err := s.DeleteManifest("lab/c", "1"); err == nil {
		t.Error("a tag that is not there was removed")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed once more: %v", err)
	}
	if a := s.get(t); a.err == nil {
		t.Error("a closed registry answers")
	}
}

// TestRegistryConnections holds that one can tell connections apart, and sees the end of a request that was given up.
func TestRegistryConnections(t *testing.T) {
	s := serve(t, 100, harness.RegistryOptions{})
	s.get(t)
	s.get(t)
	s.client.CloseIdleConnections()
	s.get(t)
	var same []bool
	all := s.ended(t)
	for _, r := range all {
		same = append(same, r.Connection == all[0].Connection)
	}
	if diff := cmp.Diff([]bool{true, true, false}, same); diff != "" {
		t.Errorf("connections:\n%s\n%s", diff, all)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.Wait(ctx, func(l harness.Requests) bool { return len(l) > 3 })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), s.digest.String()) {
		t.Errorf("waiting for what does not come: %v, want the deadline and the requests", err)
	}
}

// TestWriteHosts pulls a reference of a host that does not exist, and one of a registry with HTTPS, both by hosts.toml.
func TestWriteHosts(t *testing.T) {
	certs := t.TempDir()
	reg := harness.NewRegistry(t, harness.RegistryOptions{TLS: true})
	img, ref := harness.Push(t, reg, "lab/small:1", smallImage(1<<10))
	for _, host := range []string{reg.Host(), "registry.example"} {
		if err := reg.WriteHosts(certs, host); err != nil {
			t.Fatal(err)
		}
	}
	for _, local := range []bool{false, true} {
		c := harness.NewContainerd(t, harness.ContainerdOptions{RegistryConfigPath: certs, LocalPull: local})
		for _, ref := range []string{ref, "registry.example/lab/small:1"} {
			crictl(t, c, "pull", ref)
			if out := crictl(t, c, "images", "-q", ref); strings.TrimSpace(out) != img.Config.Digest.String() {
				t.Errorf("%s is %q, want %s", ref, out, img.Config.Digest)
			}
		}
	}
}
