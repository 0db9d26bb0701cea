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
	eventsv1 "k8s.io/api/events/v1"
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
	patches []string // of labels
	// conditions are the patches of the status.
	conditions []string
	// posted are events as they were after each write; forgetful makes those that are there unknown.
	posted    []eventsv1.Event
	forgetful bool
	conns     chan net.Conn
	closed    chan struct{}
	close     sync.Once
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
	if strings.HasSuffix(r.URL.Path, "/status") {
		verb += "/status" // which fails for reasons of its own
	}
	if strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/v1/namespaces/default/events") {
		f.takeEvent(w, r)
		return
	}
	f.mu.Lock()
	f.asked = append(f.asked, verb+" "+r.URL.Query().Get("resourceVersion"))
	h := map[string]http.HandlerFunc{"get": f.get, "patch": f.patch, "patch/status": f.patch, "watch": f.watch}[verb]
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

// patch takes what we send: a merge patch of labels, a strategic merge patch of one condition, a JSON patch that removes a taint.
func (f *fakeAPI) patch(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == nil {
		fail(w, apierrors.NewNotFound(corev1.Resource("nodes"), nodeName))
		return
	}
	status := strings.HasSuffix(r.URL.Path, "/status")
	switch kind := types.PatchType(r.Header.Get("Content-Type")); {
	case kind == types.MergePatchType && !status:
		f.patches = append(f.patches, string(body))
		err = f.patchLabels(body)
	case kind == types.StrategicMergePatchType && status:
		f.conditions = append(f.conditions, string(body))
		err = f.patchCondition(body)
	case kind == types.JSONPatchType && !status:
		err = f.patchTaint(body)
	default:
		f.t.Errorf("patch %s of type %s to %s", body, kind, r.URL.Path)
	}
	if err != nil {
		failWith(f.t, w, err)
		return
	}
	answer(w, http.StatusOK, f.node)
}

// patched is what patches name.
type patched struct {
	Metadata struct {
		UID    types.UID          `json:"uid"`
		Labels map[string]*string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Conditions []corev1.NodeCondition `json:"conditions"`
	} `json:"status"`
}

// parse reads a patch and wants it to be for this Node.
func (f *fakeAPI) parse(body []byte) (patched, error) {
	var p patched
	if err := json.Unmarshal(body, &p); err != nil {
		f.t.Errorf("patch %s: %v", body, err)
	}
	if p.Metadata.UID != f.node.UID {
		return p, otherUID()
	}
	return p, nil
}

func (f *fakeAPI) patchLabels(body []byte) error {
	p, err := f.parse(body)
	if err != nil {
		return err
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
	return nil
}

func (f *fakeAPI) patchCondition(body []byte) error {
	p, err := f.parse(body)
	if err != nil {
		return err
	}
	f.change(func(n *corev1.Node) {
		for _, c := range p.Status.Conditions {
			n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(o corev1.NodeCondition) bool { return o.Type == c.Type })
			n.Status.Conditions = append(n.Status.Conditions, c)
		}
	})
	return nil
}

// patchTaint wants the taint to be where the patch has seen it, as the API server does.
func (f *fakeAPI) patchTaint(body []byte) error {
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(body, &operations); err != nil || len(operations) != 3 {
		f.t.Errorf("patch %s: %v", body, err)
		return nil
	}
	at, err := strconv.Atoi(strings.TrimPrefix(operations[2].Path, "/spec/taints/"))
	if err != nil || operations[2].Op != "remove" || operations[1].Path != operations[2].Path || operations[0].Path != "/metadata/uid" {
		f.t.Errorf("patch %s", body)
	}
	var want corev1.Taint
	if err := json.Unmarshal(operations[1].Value, &want); err != nil {
		f.t.Error(err)
	}
	if at >= len(f.node.Spec.Taints) || f.node.Spec.Taints[at] != want || string(operations[0].Value) != strconv.Quote(string(f.node.UID)) {
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", corev1.Resource("nodes"), nodeName, "", 0, false)
	}
	f.change(func(n *corev1.Node) { n.Spec.Taints = slices.Delete(n.Spec.Taints, at, at+1) })
	return nil
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
