package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Placeholders says which pods are placeholders.
type Placeholders struct {
	// Namespace is where they are; empty: there are none.
	Namespace string
	// Selector chooses them by their labels, as kubectl get -l takes it.
	Selector string
}

// pod is what we keep of a placeholder pod.
type pod struct {
	uid           types.UID
	name, version string
	// labels are the pod's, and gate the status of the condition that opens its gate; "" where there is none.
	labels map[string]string
	gate   corev1.ConditionStatus
}

// podOf gives nil for a pod that is none of our business: without our readiness gate, ended, or about to end.
func podOf(p *corev1.Pod) *pod {
	gated := slices.ContainsFunc(p.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == GateImageReady })
	if !gated || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	out := &pod{uid: p.UID, name: p.Name, version: p.ResourceVersion, labels: p.Labels}
	for _, c := range p.Status.Conditions {
		if c.Type == GateImageReady {
			out.gate = c.Status
		}
	}
	return out
}

// due gives what must be written for the pod to say what is known of the node, one after the other; nil where it does.
func (p *pod) due(ready Readiness, now time.Time) *patch {
	want, reason := corev1.ConditionTrue, ConditionReady
	switch ready {
	case Unknown:
		return nil
	case NotReady:
		want, reason = corev1.ConditionFalse, "ImagesNotReady"
	case Ready:
	}
	if p.gate != want {
		return conditionPatch(objectPodStatus, p.uid, corev1.PodCondition{
			Type: GateImageReady, Status: want, Reason: reason, Message: "the agent of this node says so", LastTransitionTime: metav1.NewTime(now),
		}, GateImageReady+"="+string(want))
	}
	_, warm := p.labels[LabelWarm]
	switch {
	case ready == Ready && p.labels[LabelWarm] != labelTrue:
		return labelPatch(objectPod, p.uid, labelChanges{LabelWarm: new(labelTrue)})
	case ready == NotReady && warm:
		return labelPatch(objectPod, p.uid, labelChanges{LabelWarm: nil})
	}
	return nil
}

// marker keeps the placeholder pods of the node as the state says. It is a part of a Reporter with a goroutine of its own: what
// goes wrong with pods, which may not exist, keeps nothing from being said on the Node.
type marker struct {
	*Reporter

	ready chan Readiness
	seen  chan podSighting
	// What follows belongs to the goroutine of run.
	now  Readiness
	pods map[types.UID]*pod
	told Reason
}

// podSighting is what was seen of the pods at one moment.
type podSighting struct {
	// anew says that what was seen before counts no more.
	anew bool
	uid  types.UID
	// pod is nil where it is gone, or is none of our business.
	pod *pod
	err error
}

func newMarker(r *Reporter) *marker {
	return &marker{Reporter: r, ready: make(chan Readiness, 1), seen: make(chan podSighting), pods: map[types.UID]*pod{}}
}

// run marks pods until ctx ends.
func (m *marker) run(ctx context.Context) {
	failures := 0
	again := time.NewTimer(settle)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m.now = <-m.ready:
		case s := <-m.seen:
			m.see(ctx, s)
		case <-again.C:
		}
		again.Stop()
		if err := m.mark(ctx); err != nil && ctx.Err() == nil {
			failures++
			m.tellPods(ctx, err)
			again.Reset(pause(failures, ReasonOf(err).seldom()))
			continue
		}
		failures = 0
	}
}

func (m *marker) see(ctx context.Context, s podSighting) {
	switch {
	case s.err != nil:
		m.tellPods(ctx, s.err)
		return
	case s.anew:
		clear(m.pods)
		m.tellPods(ctx, nil)
	case s.pod == nil:
		delete(m.pods, s.uid)
	default:
		if have := m.pods[s.uid]; have == nil || !olderVersion(s.pod.version, have.version) { // the watch may lag behind our writes
			m.pods[s.uid] = s.pod
		}
	}
}

// mark writes what is due, on every pod whatever becomes of the others.
func (m *marker) mark(ctx context.Context) error {
	var errs []error
	for _, uid := range slices.Sorted(maps.Keys(m.pods)) {
		for p := m.pods[uid]; p != nil; p = m.pods[uid] {
			change := p.due(m.now, time.Now())
			if change == nil {
				break
			}
			next, err := m.client.patchPod(ctx, m.Placeholders.Namespace, p.name, change)
			m.Observer.APIWrite(change.object, ReasonOf(err).result())
			switch {
			case errors.Is(err, ErrConflict), errors.Is(err, errPodGone): // the watch tells what there is now
				delete(m.pods, uid)
			case err != nil:
				errs = append(errs, err)
			default:
				m.Logger.InfoContext(ctx, "wrote to a placeholder pod", "pod", p.name, "change", change.what)
				m.pods[uid] = next
				continue
			}
			break
		}
	}
	return errors.Join(errs...)
}

// tellPods logs why placeholder pods cannot be marked, when that changes. A cluster without placeholders is in order.
func (m *marker) tellPods(ctx context.Context, err error) {
	reason := ReasonOf(err)
	if reason == m.told {
		return
	}
	m.told = reason
	if err != nil {
		m.Logger.WarnContext(ctx, "placeholder pods of this node cannot be marked", "namespace", m.Placeholders.Namespace, "reason", reason, "error", err)
	}
}

// errPodGone is the error of a write to a pod that is not there.
var errPodGone = errors.New("the pod is gone")

func (c *client) patchPod(ctx context.Context, namespace, name string, p *patch) (*pod, error) {
	var after corev1.Pod
	err := c.send(ctx, p, pods, namespace, name, &after)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errPodGone
	case err != nil:
		err = translate(c.node, fmt.Errorf("pod %s/%s: %w", namespace, name, err))
		if e, ok := errors.AsType[*Error](err); ok && e.Reason == ReasonForbidden {
			e.Remedy = "allow the agent's account to patch pods and pods/status in the namespace of the placeholders"
		}
		return nil, err
	}
	return podOf(&after), nil
}
