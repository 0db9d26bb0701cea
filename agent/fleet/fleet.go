// Package fleet asks the agents of a cluster what they do, through the API server: no agent is reached in another way, and who
// asks needs no more than to list and proxy their pods.
package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/prewarm-dev/prewarm/agent/status"
)

const (
	// listTimeout bounds the list of pods, and askTimeout the answer of one agent.
	listTimeout, askTimeout = 30 * time.Second, 10 * time.Second
	// atOnce is how many agents are asked at the same time.
	atOnce = 16
	// maxQPS and maxBurst bound requests per second to the API server.
	maxQPS, maxBurst = 50, 100
)

// Options says where the agents are.
type Options struct {
	// Config is the way to the API server.
	Config    *rest.Config
	UserAgent string
	// Namespace and Selector are those of the agents' pods, and Port is where they listen.
	Namespace, Selector string
	Port                int
}

// Fleet is the agents of a cluster.
type Fleet struct {
	Options

	api    rest.Interface
	params runtime.ParameterCodec
}

// Node is what the agent of a Node says.
type Node struct {
	Name string `json:"node"`
	// Pod is the agent's, and Since when it was started.
	Pod   string    `json:"pod"`
	Since time.Time `json:"since,omitzero"`
	// Status is its state; nil where it gave none, and Error says why.
	Status *status.Snapshot `json:"status,omitempty"`
	Error  string           `json:"error,omitempty"`
}

// New makes a Fleet; it asks nothing yet.
func New(o Options) (*Fleet, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	c := rest.CopyConfig(o.Config)
	c.APIPath, c.GroupVersion = "/api", new(corev1.SchemeGroupVersion)
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.UserAgent, c.QPS, c.Burst = o.UserAgent, maxQPS, maxBurst
	api, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client of the API server at %s: %w", o.Config.Host, err)
	}
	return &Fleet{Options: o, api: api, params: runtime.NewParameterCodec(scheme)}, nil
}

// Nodes asks all agents, or those of some Nodes, and gives what they say in the order of the Nodes' names. That one does not answer
// is no error: its Node says so.
func (f *Fleet) Nodes(ctx context.Context, names ...string) ([]Node, error) {
	pods, err := f.pods(ctx)
	if err != nil {
		return nil, err
	}
	var out []Node
	for _, p := range pods {
		if p.Spec.NodeName != "" && (len(names) == 0 || slices.Contains(names, p.Spec.NodeName)) {
			out = append(out, Node{Name: p.Spec.NodeName, Pod: p.Name, Since: p.CreationTimestamp.UTC(), Error: waiting(p)})
		}
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since)) })
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range out {
		if out[i].Error != "" {
			continue
		}
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			s, err := f.ask(ctx, out[i].Pod)
			if err != nil {
				out[i].Error = err.Error()
				return
			}
			out[i].Status = s
		})
	}
	wg.Wait()
	return out, context.Cause(ctx)
}

func (f *Fleet) pods(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var list corev1.PodList
	err := f.api.Get().Namespace(f.Namespace).Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: f.Selector}, f.params).Do(ctx).Into(&list)
	if err != nil {
		return nil, fmt.Errorf("agents in namespace %s (-l %s): %w", f.Namespace, f.Selector, err)
	}
	return list.Items, nil
}

// waiting says why a pod cannot be asked; empty where it can.
func waiting(p corev1.Pod) string {
	if p.Status.Phase == corev1.PodRunning {
		return ""
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return "its pod waits: " + w.Reason
		}
	}
	return "its pod is " + string(p.Status.Phase)
}

func (f *Fleet) ask(ctx context.Context, pod string) (*status.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := f.api.Get().Namespace(f.Namespace).Resource("pods").Name(net.JoinHostPort(pod, strconv.Itoa(f.Port))).
		SubResource("proxy").Suffix("v1", "status").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("it does not answer: %w", err)
	}
	var s status.Snapshot
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("its answer cannot be read: %w", err)
	}
	return &s, nil
}
