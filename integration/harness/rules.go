package harness

import (
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
)

// Match says which requests are meant. Its zero value matches all.
type Match struct {
	// Method is GET, HEAD and so on; empty for any.
	Method string
	// Path is a regular expression that is looked for in the path of the URL; nil for any.
	Path *regexp.Regexp
	// Skip lets as many matching requests pass, and Times ends a fault after so many more; 0 for never. Filter
	// does not look at them.
	Skip, Times int
}

// GetBlob matches the GET requests for a blob; an empty digest stands for any blob.
func GetBlob(d digest.Digest) Match {
	return Match{Method: http.MethodGet, Path: regexp.MustCompile(`/blobs/` + regexp.QuoteMeta(string(d)))}
}

// Manifests matches all requests for manifests and indexes, by tag or by digest.
func Manifests() Match { return Match{Path: regexp.MustCompile(`/manifests/`)} }

// First limits a match to the next n requests.
func (m Match) First(n int) Match { m.Times = n; return m }

// After lets n requests pass.
func (m Match) After(n int) Match { m.Skip = n; return m }

func (m Match) matches(method, path string) bool {
	return (m.Method == "" || m.Method == method) && (m.Path == nil || m.Path.MatchString(path))
}

// Inject applies faults to the requests that m matches, until remove is called. The first fault is the outermost: with
// Rate and then Cut, what is cut is sent slowly. Where several injections match, the one that was injected first is the
// outermost.
func (r *Registry) Inject(m Match, faults ...Fault) (remove func()) {
	return r.rules.add(&rule{match: m, faults: faults})
}

// rule is one injection.
type rule struct {
	match  Match
	faults []Fault
	// seen counts the matching requests.
	seen int
}

// rules is the list of injections. Its zero value is ready for use.
type rules struct {
	mu   sync.Mutex
	list []*rule
}

func (l *rules) add(r *rule) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list = slices.DeleteFunc(l.list, func(x *rule) bool { return x == r })
	}
}

// wrap puts the faults that are due around the handler.
func (l *rules) wrap(req *http.Request, h http.Handler) http.Handler {
	l.mu.Lock()
	defer l.mu.Unlock()
	var due []Fault
	for _, r := range l.list {
		if !r.match.matches(req.Method, req.URL.Path) {
			continue
		}
		r.seen++
		if n := r.seen - r.match.Skip; n > 0 && (r.match.Times == 0 || n <= r.match.Times) {
			due = append(due, r.faults...)
		}
	}
	for _, f := range slices.Backward(due) {
		h = f(h)
	}
	return h
}
