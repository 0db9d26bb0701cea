package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
)

// RegistryOptions are the settings of a registry; the zero value is plain HTTP on a free port, open to everybody.
type RegistryOptions struct {
	// TLS serves HTTPS with a certificate of an authority of its own: see Registry.CA and Registry.WriteHosts.
	TLS bool
	// Port is the port on the loopback interface; 0 for a free one.
	Port int
}

// Registry is an OCI registry on the loopback interface: go-containerregistry's, with blobs on disk. In front of it stands
// a layer of ours that serves blobs with correct ranges, records every request, and applies faults.
type Registry struct {
	// CA is the certificate authority that signed the registry's certificate, in PEM; nil without TLS.
	CA []byte

	blobs    string
	listener net.Listener
	server   *http.Server
	backend  http.Handler
	served   chan error

	records recorder
	rules   rules
	close   sync.Once
}

// StartRegistry serves the blobs that lie in dir, and those pushed to it, until Close.
func StartRegistry(ctx context.Context, dir string, o RegistryOptions) (*Registry, error) {
	r := &Registry{blobs: filepath.Join(dir, "sha256"), served: make(chan error, 1)}
	if err := os.MkdirAll(r.blobs, 0o755); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.backend = registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)), registry.Logger(quiet))
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", loopback(o.Port))
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	r.listener = l
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	if !o.TLS {
		go func() { r.served <- r.server.Serve(l) }()
		return r, nil
	}
	cert, ca, err := serverCertificate()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("registry: %w", err), l.Close())
	}
	r.CA = ca
	// Faults take connections over, which HTTP/2 does not let them.
	r.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	go func() { r.served <- r.server.ServeTLS(l, "", "") }()
	return r, nil
}

// NewRegistry starts a registry for a test.
func NewRegistry(t T, o RegistryOptions) *Registry {
	t.Helper()
	r, err := StartRegistry(t.Context(), Dir(t), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Logf("stop the registry: %v", err)
		}
		if t.Failed() {
			t.Logf("requests to the registry %s:\n%s", r.Host(), r.Requests())
		}
	})
	return r
}

// Host is how references name this registry: address and port.
func (r *Registry) Host() string { return r.listener.Addr().String() }

// Ref is a reference to something in this registry: suffix is repository:tag, repository@digest, or both.
func (r *Registry) Ref(suffix string) string { return r.Host() + "/" + suffix }

// URL is the registry's base URL.
func (r *Registry) URL() string {
	if r.CA != nil {
		return "https://" + r.Host()
	}
	return "http://" + r.Host()
}

// Close ends the registry and every connection to it. It may be called again.
func (r *Registry) Close() error {
	var err error
	r.close.Do(func() {
		err = r.server.Close()
		if serr := <-r.served; !errors.Is(serr, http.ErrServerClosed) {
			err = errors.Join(err, serr)
		}
	})
	return err
}

// ServeHTTP records the request and answers it as the faults say, or as a good registry does.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	rec := r.records.begin(req)
	defer rec.end()
	r.rules.wrap(req, http.HandlerFunc(r.serve)).ServeHTTP(&recordingWriter{ResponseWriter: w, rec: rec}, req)
}

// serve answers for blobs itself. The backend would refuse an open-ended range, which containerd asks for when it
// resumes, with 416, and it would hash the blob again for every request.
func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	_, name, isBlob := strings.Cut(req.URL.Path, "/blobs/")
	d, err := digest.Parse(name)
	if !isBlob || err != nil || (req.Method != http.MethodGet && req.Method != http.MethodHead) {
		r.backend.ServeHTTP(w, req)
		return
	}
	f, err := os.Open(r.BlobPath(d))
	if err != nil {
		writeError(w, http.StatusNotFound, "BLOB_UNKNOWN", "Unknown blob")
		return
	}
	defer func() { _ = f.Close() }()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", d.String())
	w.Header().Set("ETag", `"`+d.String()+`"`)
	http.ServeContent(w, req, "", time.Time{}, f)
}

// BlobPath is the file of a blob, to be read only: it may be the same file as in the cache of images. Blobs are not kept by
// repository: each is in all of them.
func (r *Registry) BlobPath(d digest.Digest) string { return filepath.Join(r.blobs, d.Encoded()) }

// PutBlob adds the blob that is in a file, by a hard link where that can be.
func (r *Registry) PutBlob(d digest.Digest, file string) error {
	err := os.Link(file, r.BlobPath(d))
	if err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	return copyFile(r.BlobPath(d), file)
}

// DeleteBlob removes a blob, so that manifests name what is not there.
func (r *Registry) DeleteBlob(d digest.Digest) error { return os.Remove(r.BlobPath(d)) }

// PutManifest adds a manifest or index under its digest and under a tag (reference may be either). What an index names
// must be there already.
func (r *Registry) PutManifest(repository, reference, mediaType string, body []byte) error {
	return r.edit(http.MethodPut, repository, reference, mediaType, body)
}

// DeleteManifest removes a tag, or with a digest the manifest; whatever else names it keeps doing so.
func (r *Registry) DeleteManifest(repository, reference string) error {
	return r.edit(http.MethodDelete, repository, reference, "", nil)
}

// edit asks the backend directly: neither counted nor faulty.
func (r *Registry) edit(method, repository, reference, mediaType string, body []byte) error {
	req := httptest.NewRequestWithContext(context.Background(), method, "/v2/"+repository+"/manifests/"+reference, bytes.NewReader(body))
	req.Header.Set("Content-Type", mediaType)
	w := httptest.NewRecorder()
	r.backend.ServeHTTP(w, req)
	if w.Code >= http.StatusBadRequest {
		return fmt.Errorf("registry: %s %s/%s: %d %s", method, repository, reference, w.Code, strings.TrimSpace(w.Body.String()))
	}
	return nil
}

// WriteHosts makes containerd and its like ask this registry for all that they want of host, by a hosts.toml in the
// folder certs.d; with this registry's own host they learn to trust its certificate.
func (r *Registry) WriteHosts(certsD, host string) error {
	dir := filepath.Join(certsD, host)
	text := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", r.URL(), r.URL())
	if r.CA != nil {
		text += fmt.Sprintf("  ca = %q\n", filepath.Join(dir, "ca.crt"))
		if err := writeFile(filepath.Join(dir, "ca.crt"), r.CA); err != nil {
			return fmt.Errorf("registry: %w", err)
		}
	}
	if err := writeFile(filepath.Join(dir, "hosts.toml"), []byte(text)); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	return nil
}

func copyFile(to, from string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := os.CreateTemp(filepath.Dir(to), ".copy-")
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Close()); err != nil {
		return errors.Join(err, os.Remove(dst.Name()))
	}
	return os.Rename(dst.Name(), to)
}

// writeError answers with an error as the OCI distribution specification has it.
func writeError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`+"\n", code, message)
}
