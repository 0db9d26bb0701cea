package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	nodes = "nodes"
	pods  = "pods"
	// requestTimeout bounds one answer of the API server; of a watch, its beginning.
	requestTimeout = 10 * time.Second
	// fieldManager owns our labels in the Node's managedFields, under this name whatever the version.
	fieldManager = "prewarm"
	// shortestWatch is after what time the API server ends a watch at the soonest, and longestWatch at the latest: an
	// end at random keeps the agents of a cluster from coming back at the same time, as in client-go's reflectors.
	shortestWatch, longestWatch = 5 * time.Minute, 10 * time.Minute
	// maxQPS and maxBurst bound requests per second; an agent that works as it should makes a few an hour.
	maxQPS, maxBurst = 5, 20
)

// client is the way to one Node, its placeholder pods and its events. It knows no other types, which keeps the agent small.
type client struct {
	api, events rest.Interface
	params      runtime.ParameterCodec
	node        string
}

func newClient(config *rest.Config, userAgent, node string, log *slog.Logger) (*client, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{}, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, eventsv1.SchemeGroupVersion)

	c := rest.CopyConfig(config)
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.AcceptContentTypes, c.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/json"
	c.UserAgent, c.QPS, c.Burst = userAgent, maxQPS, maxBurst
	c.WarningHandlerWithContext = warnings{log}
	fail := func(err error) (*client, error) {
		return nil, fmt.Errorf("client of the API server at %s: %w", config.Host, err)
	}
	transport, err := rest.HTTPClientFor(c)
	if err != nil {
		return fail(err)
	}
	c.APIPath, c.GroupVersion = "/api", new(corev1.SchemeGroupVersion)
	api, err := rest.RESTClientForConfigAndClient(c, transport)
	if err != nil {
		return fail(err)
	}
	c.APIPath, c.GroupVersion = "/apis", new(eventsv1.SchemeGroupVersion)
	events, err := rest.RESTClientForConfigAndClient(c, transport)
	if err != nil {
		return fail(err)
	}
	return &client{api: api, events: events, params: runtime.NewParameterCodec(scheme), node: node}, nil
}

// warnings logs what the API server warns of, which client-go would write to stderr.
type warnings struct{ log *slog.Logger }

var _ rest.WarningHandlerWithContext = warnings{}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, _ int, agent, text string) {
	w.log.InfoContext(ctx, "the API server warns", "warning", text, "agent", agent)
}

// get reads the Node as it is now.
func (c *client) get(ctx context.Context) (*object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var n corev1.Node
	if err := c.api.Get().Resource(nodes).Name(c.node).Do(ctx).Into(&n); err != nil {
		return nil, translate(c.node, err)
	}
	return objectOf(&n), nil
}

// patch changes the Node as it is due. If it is another Node by now, or somebody was faster, the error is ErrConflict.
func (c *client) patch(ctx context.Context, p *patch) (*object, error) {
	var n corev1.Node
	if err := c.send(ctx, p, nodes, "", c.node, &n); err != nil {
		err = translate(c.node, err)
		if e, ok := errors.AsType[*Error](err); ok && p.kind == types.JSONPatchType && e.Reason == ReasonInvalid {
			e.Reason = ReasonConflict // a test of it failed: the Node is not as it was seen
		}
		return nil, err
	}
	return objectOf(&n), nil
}

// send sends a patch to an object, and reads the object as it is then.
func (c *client) send(ctx context.Context, p *patch, resource, namespace, name string, after runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(p.body)
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	request := c.api.Patch(p.kind).NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).Param("fieldManager", fieldManager).Body(body)
	if p.status {
		request = request.SubResource("status")
	}
	return request.Do(ctx).Into(after)
}

// watch follows what options select of a resource, from the version they name on. From the empty one it begins with all there
// is, as the API server's cache has it.
func (c *client) watch(ctx context.Context, resource, namespace string, o metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(requestTimeout, cancel)
	length := shortestWatch + rand.N(longestWatch-shortestWatch) //nolint:gosec // spreads load, keeps no secret
	o.Watch, o.AllowWatchBookmarks, o.TimeoutSeconds = true, true, new(int64(length.Seconds()))
	w, err := c.api.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&o, c.params).Watch(ctx)
	if !late.Stop() && err == nil {
		w.Stop()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, translate(c.node, err)
	}
	return canceling{w, cancel}, nil
}

// watchNode follows the Node.
func (c *client) watchNode(ctx context.Context, version string) (watch.Interface, error) {
	return c.watch(ctx, nodes, "", metav1.ListOptions{
		ResourceVersion: version, FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, c.node).String(),
	})
}

// watchPods follows the placeholder pods of the node.
func (c *client) watchPods(ctx context.Context, of Placeholders, version string) (watch.Interface, error) {
	return c.watch(ctx, pods, of.Namespace, metav1.ListOptions{
		ResourceVersion: version, LabelSelector: of.Selector, FieldSelector: fields.OneTermEqualSelector("spec.nodeName", c.node).String(),
	})
}

// canceling is a watch that ends its request when it is stopped.
type canceling struct {
	watch.Interface

	cancel context.CancelFunc
}

func (c canceling) Stop() {
	c.Interface.Stop()
	c.cancel()
}
