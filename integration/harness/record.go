package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

// Request is a request that a registry has got, with as much of the answer as was given by now.
type Request struct {
	Method, Path string
	// Connection is the client's address and port: the same for requests on one connection.
	Connection string
	// Range is the header of that name.
	Range string
	// Authorization is the scheme of the credentials that came along, such as Basic; empty for none.
	Authorization string
	UserAgent     string
	// Status is 0 before the answer has begun, and where there never was one.
	Status int
	// Bytes is how much of the body was handed to the network. What a client has received can be less by what is on
	// the way, up to the size of the socket buffers.
	Bytes int64
	Start time.Time
	// Done says that the answer has ended.
	Done bool
}

// Requests is a list of requests in the order in which they came.
type Requests []Request

// Filter keeps those that m matches.
func (l Requests) Filter(m Match) Requests {
	var out Requests
	for _, r := range l {
		if m.matches(r.Method, r.Path) {
			out = append(out, r)
		}
	}
	return out
}

// Bytes is the sum of their bodies.
func (l Requests) Bytes() int64 {
	var sum int64
	for _, r := range l {
		sum += r.Bytes
	}
	return sum
}

// String has one line for each.
func (l Requests) String() string {
	var b strings.Builder
	for _, r := range l {
		_, _ = fmt.Fprintf(&b, "%s %s %s %s: %d, %d bytes", r.Start.Format("05.000"), r.Connection, r.Method, r.Path, r.Status, r.Bytes)
		if r.Range != "" {
			_, _ = fmt.Fprintf(&b, ", Range %s", r.Range)
		}
		if !r.Done {
			b.WriteString(", not ended")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Requests lists what the registry was asked since its start or the last Forget.
func (r *Registry) Requests() Requests { return r.records.list() }

// Served is how many bytes of a blob were sent, over all requests since the last Forget.
func (r *Registry) Served(d digest.Digest) int64 { return r.Requests().Filter(GetBlob(d)).Bytes() }

// Forget starts the list of requests anew. Requests that are being answered are no longer listed.
func (r *Registry) Forget() { r.records.forget() }

// Wait waits until the list of requests is as cond wants it, which it asks at every change; bytes sent are changes.
func (r *Registry) Wait(ctx context.Context, cond func(Requests) bool) error {
	for {
		list, changed := r.records.watch()
		if cond(list) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the registry waited for other requests than it got: %w:\n%s", context.Cause(ctx), list)
		}
	}
}

// recorder keeps the requests. Its zero value is ready for use.
type recorder struct {
	mu       sync.Mutex
	requests []*Request
	changed  chan struct{}
}

// record is one request in a recorder.
type record struct {
	all *recorder
	req *Request
}

func (l *recorder) begin(req *http.Request) record {
	scheme, _, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	r := &Request{
		Method: req.Method, Path: req.URL.Path, Connection: req.RemoteAddr, Range: req.Header.Get("Range"),
		Authorization: scheme, UserAgent: req.UserAgent(), Start: time.Now(),
	}
	rec := record{all: l, req: r}
	rec.update(func(*Request) { l.requests = append(l.requests, r) })
	return rec
}

func (r record) end() { r.update(func(req *Request) { req.Done = true }) }

// update changes the request and wakes those who wait.
func (r record) update(change func(*Request)) {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	change(r.req)
	if r.all.changed != nil {
		close(r.all.changed)
		r.all.changed = nil
	}
}

func (l *recorder) list() Requests {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(Requests, len(l.requests))
	for i, r := range l.requests {
		out[i] = *r
	}
	return slices.Clip(out)
}

func (l *recorder) watch() (Requests, <-chan struct{}) {
	l.mu.Lock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	changed := l.changed
	l.mu.Unlock()
	return l.list(), changed
}

func (l *recorder) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = nil
}

// recordingWriter stands next to the network and counts what is really written.
type recordingWriter struct {
	http.ResponseWriter

	rec record
}

// Unwrap is how http.ResponseController finds the connection.
func (w *recordingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recordingWriter) WriteHeader(status int) {
	w.rec.update(func(r *Request) { r.Status = status })
	w.ResponseWriter.WriteHeader(status)
}

func (w *recordingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.count(int64(n))
	return n, err
}

// ReadFrom keeps the way from file to socket open that does without a copy (sendfile), which the server takes for a file
// and a limit. It goes by parts, so that the count is never far behind.
func (w *recordingWriter) ReadFrom(src io.Reader) (int64, error) {
	const part = 1 << 20
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: src, N: math.MaxInt64}
	}
	var sum int64
	for limited.N > 0 {
		n, err := io.CopyN(w.ResponseWriter, limited.R, min(part, limited.N))
		sum += n
		limited.N -= n
		w.count(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (w *recordingWriter) count(n int64) {
	w.rec.update(func(r *Request) {
		r.Bytes += n
		if r.Status == 0 {
			r.Status = http.StatusOK
		}
	})
}
