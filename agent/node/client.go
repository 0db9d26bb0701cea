package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// client is the way to one Node. It knows no other types than Node, which keeps the agent small.
type client struct {
	api    rest.Interface
	params runtime.ParameterCodec
	node   string
}

func newClient(config *rest.Config, userAgent, node string, log *slog.Logger) (*client, error) {
	version := corev1.SchemeGroupVersion
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &corev1.Node{}, &corev1.NodeList{})
	metav1.AddToGroupVersion(scheme, version)

	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &version
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.AcceptContentTypes, c.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/json"
	c.UserAgent, c.QPS, c.Burst = userAgent, maxQPS, maxBurst
	c.WarningHandlerWithContext = warnings{log}
	api, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client of the API server at %s: %w", config.Host, err)
	}
	return &client{api: api, params: runtime.NewParameterCodec(scheme), node: node}, nil
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

// patch changes labels of the Node with this UID; if it is another one by now, the error is ErrConflict. A JSON merge
// patch (RFC 7386) leaves alone what it does not name, whoever writes that at the same time.
func (c *client) patch(ctx context.Context, uid types.UID, labels labelChanges) (*object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "labels": labels}})
	if err != nil {
		return nil, fmt.Errorf("patch of Node %s: %w", c.node, err)
	}
	var n corev1.Node
	err = c.api.Patch(types.MergePatchType).Resource(nodes).Name(c.node).Param("fieldManager", fieldManager).Body(body).Do(ctx).Into(&n)
	if err != nil {
		return nil, translate(c.node, err)
	}
	return objectOf(&n), nil
}

// watch follows the Node from a version on. From the empty one it begins with the Node as the API server's cache has it.
func (c *client) watch(ctx context.Context, version string) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(requestTimeout, cancel)
	length := shortestWatch + rand.N(longestWatch-shortestWatch) //nolint:gosec // spreads load, keeps no secret
	w, err := c.api.Get().Resource(nodes).VersionedParams(&metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, ResourceVersion: version,
		FieldSelector:  fields.OneTermEqualSelector(metav1.ObjectNameField, c.node).String(),
		TimeoutSeconds: new(int64(length.Seconds())),
	}, c.params).Watch(ctx)
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

// canceling is a watch that ends its request when it is stopped.
type canceling struct {
	watch.Interface

	cancel context.CancelFunc
}

func (c canceling) Stop() {
	c.Interface.Stop()
	c.cancel()
}
