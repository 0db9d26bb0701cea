package fleet

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/prewarm-dev/prewarm/agent/status"
)

// pod is an agent's pod on a Node.
func pod(name, node string, phase corev1.PodPhase, waits string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(100, 0))}, Spec: corev1.PodSpec{NodeName: node}}
	p.Status.Phase = phase
	if waits != "" {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waits}}}}
	}
	return p
}

// Of agents that do not answer, or whose pods do not run, it is said why; the others are not kept from answering. How the real API
// server passes the question on is held in integration/cluster.
func TestNodes(t *testing.T) {
	t.Parallel()
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{
		pod("p-d", "d", corev1.PodPending, "ImagePullBackOff"), pod("p-a", "a", corev1.PodRunning, ""), pod("p-b", "b", corev1.PodRunning, ""),
		pod("p-c", "c", corev1.PodRunning, ""), pod("unbound", "", corev1.PodPending, ""), pod("p-e", "e", corev1.PodFailed, ""),
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case "/api/v1/namespaces/ns/pods":
			if got := r.URL.Query().Get("labelSelector"); got != "app=agent" {
				t.Errorf("selector %q", got)
			}
			answer = list
		case "/api/v1/namespaces/ns/pods/p-a:1234/proxy/v1/status":
			answer = status.Snapshot{Node: "a", Ready: true}
		case "/api/v1/namespaces/ns/pods/p-c:1234/proxy/v1/status":
			answer = "nonsense"
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Message: "connection refused", Code: http.StatusServiceUnavailable}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	f, err := New(Options{Config: &rest.Config{Host: server.URL}, UserAgent: "test", Namespace: "ns", Selector: "app=agent", Port: 1234})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := f.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ name, problem string }{
		{"a", ""}, {"b", "it does not answer"}, {"c", "its answer cannot be read"}, {"d", "its pod waits: ImagePullBackOff"}, {"e", "its pod is Failed"},
	}
	if len(nodes) != len(want) {
		t.Fatalf("%d nodes: %+v", len(nodes), nodes)
	}
	for i, w := range want {
		n := nodes[i]
		if n.Name != w.name || !strings.Contains(n.Error, w.problem) || (n.Status != nil) != (w.problem == "") || n.Since.Unix() != 100 {
			t.Errorf("node %d: %+v, want %+v", i, n, w)
		}
	}
	if some, err := f.Nodes(t.Context(), "a", "nosuch"); err != nil || len(some) != 1 || !some[0].Status.Ready {
		t.Errorf("of some: %+v, %v", some, err)
	}
	server.Close()
	if _, err := f.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "namespace ns") {
		t.Errorf("without an API server: %v", err)
	}
}
