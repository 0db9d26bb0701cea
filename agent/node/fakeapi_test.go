package node

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const nodeName = "worker-1"

// fakeAPI stands in for the API server where it must fail in a given way: one Node, its versions, its watches. How the
// real one answers is held by the tests in integration/.
type fakeAPI struct {
	t *testing.T

	mu      sync.Mutex
	away    bool // nothing listens
	node    *corev1.Node
	version int
	changes []change
	watches map[chan struct{}]chan struct{} // by what wakes it, what ends it
	faults  map[string][]http.HandlerFunc   // by verb, for one request each
	always  map[string]http.HandlerFunc     // by verb, for the rest
	asked   []string
	patches []string
	conns   chan net.Conn
	closed  chan struct{}
	close   sync.Once
}

// change is an event of a watch.
type change struct {
	version int
	kind    watch.EventType
	object  any
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	f := &fakeAPI{
		t: t, version: 100, watches: map[chan struct{}]chan struct{}{},
		faults: map[string][]http.HandlerFunc{}, always: map[string]http.HandlerFunc{},
		conns: make(chan net.Conn), closed: make(chan struct{}),
	}
	server := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(f)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return f
}

// Accept, Close and Addr make it a listener whose connections are in memory: a server on the clock of a synctest bubble.
func (f *fakeAPI) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

func (f *fakeAPI) Close() error {
	f.close.Do(func() { close(f.closed) })
	return nil
}

func (f *fakeAPI) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }

// config is the way to it.
func (f *fakeAPI) config() *rest.Config {
	return &rest.Config{Host: "http://api.example", Transport: &http.Transport{DialContext: f.dial}}
}

func (f *fakeAPI) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	f.mu.Lock()
	away := f.away
	f.mu.Unlock()
	if away {
		return nil, errors.New("connection refused")
	}
	mine, theirs := net.Pipe()
	select {
	case f.conns <- theirs:
		return mine, nil
	case <-f.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := strings.ToLower(r.Method)
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	f.mu.Lock()
	f.asked = append(f.asked, verb+" "+r.URL.Query().Get("resourceVersion"))
	h := map[string]http.HandlerFunc{"get": f.get, "patch": f.patch, "watch": f.watch}[verb]
	if o := f.always[verb]; o != nil {
		h = o
	}
	if queue := f.faults[verb]; len(queue) > 0 {
		h, f.faults[verb] = queue[0], queue[1:]
	}
	away := f.away
	f.mu.Unlock()
	if away {
		reset(w, r)
		return
	}
	h(w, r)
}

func (f *fakeAPI) get(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == nil {
		fail(w, apierrors.NewNotFound(corev1.Resource("nodes"), nodeName))
		return
	}
	answer(w, http.StatusOK, f.node)
}

// patch takes a merge patch of labels, and nothing else.
func (f *fakeAPI) patch(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var p struct {
		Metadata struct {
			UID    types.UID          `json:"uid"`
			Labels map[string]*string `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &p); err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		f.t.Errorf("patch %s of type %s: %v", body, r.Header.Get("Content-Type"), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.patches = append(f.patches, string(body))
	switch {
	case f.node == nil:
		fail(w, apierrors.NewNotFound(corev1.Resource("nodes"), nodeName))
		return
	case p.Metadata.UID != f.node.UID:
		fail(w, otherUID())
		return
	}
	f.change(func(n *corev1.Node) {
		for key, value := range p.Metadata.Labels {
			if value == nil {
				delete(n.Labels, key)
			} else {
				n.Labels[key] = *value
			}
		}
	})
	answer(w, http.StatusOK, f.node)
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request) {
	if got := r.URL.Query().Get("fieldSelector"); got != "metadata.name="+nodeName {
		f.t.Errorf("watch of %q", got)
	}
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/json")
	f.mu.Lock()
	since, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		since = f.version
		if f.node != nil {
			writeEvent(w, change{kind: watch.Added, object: f.node.DeepCopy()})
		}
	}
	wake, end := make(chan struct{}, 1), make(chan struct{})
	f.watches[wake] = end
	f.mu.Unlock()
	_ = rc.Flush()
	for {
		f.mu.Lock()
		for _, c := range f.changes {
			if c.version > since {
				writeEvent(w, c)
				since = c.version
			}
		}
		f.mu.Unlock()
		_ = rc.Flush()
		select {
		case <-wake:
		case <-end:
			return
		case <-r.Context().Done():
			f.mu.Lock()
			delete(f.watches, wake)
			f.mu.Unlock()
			return
		}
	}
}

// endWatches ends all watches, as the API server does after some minutes.
func (f *fakeAPI) endWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, end := range f.watches {
		close(end)
	}
	clear(f.watches)
}

// leave makes it unreachable, and come back.
func (f *fakeAPI) leave(away bool) {
	f.mu.Lock()
	f.away = away
	f.mu.Unlock()
	if away {
		f.endWatches()
	}
}

// event sends an event to all watches; the next version is its.
func (f *fakeAPI) event(kind watch.EventType, object any) {
	f.changes = append(f.changes, change{version: f.version, kind: kind, object: object})
	for wake := range f.watches {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// change changes the Node as somebody does who holds f.mu.
func (f *fakeAPI) change(how func(*corev1.Node)) {
	n := f.node.DeepCopy()
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	how(n)
	f.version++
	n.ResourceVersion = strconv.Itoa(f.version)
	f.node = n
	f.event(watch.Modified, n)
}

// edit changes the Node as somebody else does.
func (f *fakeAPI) edit(how func(*corev1.Node)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change(how)
}

// create makes the Node, with labels given as key=value.
func (f *fakeAPI) create(uid types.UID, labels ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.node = &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: uid, ResourceVersion: strconv.Itoa(f.version), Labels: map[string]string{}},
	}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		f.node.Labels[key] = value
	}
	f.event(watch.Added, f.node)
}

func (f *fakeAPI) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	n := f.node.DeepCopy()
	n.ResourceVersion = strconv.Itoa(f.version)
	f.node = nil
	f.event(watch.Deleted, n)
}

// fail makes the next requests of a verb fail; forever makes all that follow.
func (f *fakeAPI) fail(verb string, how ...http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[verb] = append(f.faults[verb], how...)
}

func (f *fakeAPI) forever(verb string, how http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.always[verb] = how
}

// labels gives the labels of the Node as key=value.
func (f *fakeAPI) labels() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, key := range slices.Sorted(maps.Keys(f.node.Labels)) {
		out = append(out, key+"="+f.node.Labels[key])
	}
	return out
}

// requests gives all requests so far, as the verb and the version that it names.
func (f *fakeAPI) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// count gives the number of requests of a verb.
func (f *fakeAPI) count(verb string) int {
	return len(slices.DeleteFunc(f.requests(), func(a string) bool { return !strings.HasPrefix(a, verb+" ") }))
}

// sent gives the bodies of all patches so far that were looked at.
func (f *fakeAPI) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.patches)
}
