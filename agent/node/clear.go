package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// listSize is how many objects are asked for at a time.
const listSize = 500

// Cleared is what was taken off an object, or is to be.
type Cleared struct {
	// Object is such as node/worker-1 or pod/overprovisioning/spaces-placeholder-cpu-0.
	Object string   `json:"object"`
	Labels []string `json:"labels,omitempty"`
	// Condition is the type of our condition, and Taint our startup taint; empty where there was none.
	Condition string `json:"condition,omitempty"`
	Taint     string `json:"taint,omitempty"`
}

// Empty reports whether nothing of ours was there.
func (c Cleared) Empty() bool { return len(c.Labels) == 0 && c.Condition == "" && c.Taint == "" }

// Clear takes everything off the Node that we write on it, and the startup taint, which nobody would take off any more; it says
// what that is. Without write it only looks. That there is no Node is no error: then there is nothing of ours either.
func (r *Reporter) Clear(ctx context.Context, write bool) (Cleared, error) {
	o, err := r.client.get(ctx)
	if errors.Is(err, ErrNodeNotFound) {
		return Cleared{Object: "node/" + r.Node}, nil
	}
	if err != nil {
		return Cleared{Object: "node/" + r.Node}, err
	}
	return r.client.clear(ctx, o, write)
}

// clear takes everything of ours off a Node as it was seen.
func (c *client) clear(ctx context.Context, o *object, write bool) (Cleared, error) {
	cleared := Cleared{Object: "node/" + c.node}
	var patches []*patch
	change := labelChanges{}
	for key := range o.labels {
		if ours(key) {
			change[key] = nil
		}
	}
	if len(change) > 0 {
		cleared.Labels = slices.Sorted(maps.Keys(change))
		patches = append(patches, labelPatch(objectNode, o.uid, change))
	}
	if o.condition != nil {
		cleared.Condition = ConditionImagesReady
		patches = append(patches, conditionRemoval(objectNodeStatus, o.uid, ConditionImagesReady))
	}
	if p := taintRemoval(o); p != nil {
		cleared.Taint = TaintKey
		patches = append(patches, p)
	}
	if !write {
		return cleared, nil
	}
	var errs []error
	for _, p := range patches {
		_, err := c.patch(ctx, p)
		if !errors.Is(err, ErrNodeNotFound) {
			errs = append(errs, err)
		}
	}
	return cleared, errors.Join(errs...)
}

// ClearCluster does the same on every Node, and takes our label and condition off every placeholder pod. It needs permissions that
// the agent does not have: to list Nodes and pods, and to patch them all. One object that fails keeps no other from being cleared.
func (r *Reporter) ClearCluster(ctx context.Context, write bool) ([]Cleared, error) {
	var all []Cleared
	var errs []error
	add := func(c Cleared, err error) {
		if !c.Empty() {
			all = append(all, c)
		}
		errs = append(errs, err)
	}
	err := list(ctx, r.client, nodes, "", metav1.ListOptions{}, func(l *corev1.NodeList) metav1.ListMeta {
		for i := range l.Items {
			one := *r.client
			one.node = l.Items[i].Name
			add(one.clear(ctx, objectOf(&l.Items[i]), write))
		}
		return l.ListMeta
	})
	errs = append(errs, err)
	if r.Placeholders.Namespace != "" {
		err = list(ctx, r.client, pods, r.Placeholders.Namespace, metav1.ListOptions{LabelSelector: r.Placeholders.Selector}, func(l *corev1.PodList) metav1.ListMeta {
			for i := range l.Items {
				add(r.clearPod(ctx, &l.Items[i], write))
			}
			return l.ListMeta
		})
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// list reads all objects of a resource, some at a time, and hands them to each.
func list[L any](ctx context.Context, c *client, resource, namespace string, o metav1.ListOptions, each func(*L) metav1.ListMeta) error {
	o.Limit = listSize
	for {
		raw, err := c.api.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&o, c.params).
			SetHeader("Accept", "application/json").Timeout(requestTimeout).Do(ctx).Raw()
		if err != nil {
			return fmt.Errorf("list of %s: %w", resource, err)
		}
		var l L
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("list of %s: %w", resource, err)
		}
		if o.Continue = each(&l).Continue; o.Continue == "" {
			return nil
		}
	}
}

func (r *Reporter) clearPod(ctx context.Context, p *corev1.Pod, write bool) (Cleared, error) {
	cleared := Cleared{Object: "pod/" + p.Namespace + "/" + p.Name}
	var patches []*patch
	if _, ok := p.Labels[LabelWarm]; ok {
		cleared.Labels = []string{LabelWarm}
		patches = append(patches, labelPatch(objectPod, p.UID, labelChanges{LabelWarm: nil}))
	}
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == GateImageReady }) {
		cleared.Condition = GateImageReady
		patches = append(patches, conditionRemoval(objectPodStatus, p.UID, GateImageReady))
	}
	if !write {
		return cleared, nil
	}
	var errs []error
	for _, change := range patches {
		if _, err := r.client.patchPod(ctx, p.Namespace, p.Name, change); !errors.Is(err, errPodGone) {
			errs = append(errs, err)
		}
	}
	return cleared, errors.Join(errs...)
}

// conditionRemoval takes a condition away (strategic merge patch, directive delete).
func conditionRemoval(object string, uid types.UID, kind string) *patch {
	return conditionPatch(object, uid, map[string]string{"$patch": "delete", "type": kind}, kind+"-")
}
