package node

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Controller names us in events.
	Controller = "prewarm.dev/agent"
	// eventNamespace is where events about objects without a namespace must be (Kubernetes validation of events).
	eventNamespace = metav1.NamespaceDefault
	// eventQueue is how many events may wait for the API server; more are dropped, since the state tells the same.
	eventQueue = 32
	// seriesEnd is how long after the last of its kind an event begins a new series, and seriesInterval the least time between
	// two updates of one.
	seriesEnd, seriesInterval = 30 * time.Minute, 5 * time.Minute
)

// Event is something that happened on this node which people may want to know.
type Event struct {
	// Warning is true of what somebody may have to mend.
	Warning bool
	// Reason is one CamelCase word, and Action what was being done then.
	Reason, Action string
	// Image is the name of the image that it is about; empty where it is about none.
	Image string
	// Note is for people.
	Note string
}

// kind tells which events are of one series.
func (e Event) kind() string { return e.Reason + " " + e.Image }

// series are events of one kind that came in a row: one object of the API.
type series struct {
	name         string
	count        int32
	last, posted time.Time
}

// Post has an event told to the API server, in time and on a best effort; it does not wait.
func (r *Reporter) Post(e Event) {
	select {
	case r.events <- e:
	default:
		r.Logger.Info("event is dropped: the API server does not take them fast enough", "reason", e.Reason, "image", e.Image, "note", e.Note)
	}
}

// postEvents tells events until ctx ends. That one cannot be told is logged and changes nothing: an event is news, not state.
func (r *Reporter) postEvents(ctx context.Context) {
	all := map[string]*series{}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.events:
			now := time.Now()
			s := all[e.kind()]
			if s == nil || now.Sub(s.last) > seriesEnd {
				s = &series{}
				all[e.kind()] = s
			}
			s.count++
			s.last = now
			if s.count > 2 && now.Sub(s.posted) < seriesInterval {
				continue
			}
			if err := r.postEvent(ctx, e, s, now); err != nil && ctx.Err() == nil {
				r.Logger.InfoContext(ctx, "event cannot be told", "reason", e.Reason, "image", e.Image, "error", err)
			}
			s.posted = now
		}
	}
}

// postEvent makes the event, or says of the one that is there that it happened again; the API server forgets events after an
// hour.
func (r *Reporter) postEvent(ctx context.Context, e Event, s *series, now time.Time) error {
	if s.name != "" {
		err := r.client.again(ctx, s, now)
		if !apierrors.IsNotFound(err) {
			r.Observer.APIWrite(objectEvent, eventResult(err))
			return err
		}
		s.count = 1
	}
	event := r.newEvent(e, now)
	s.name = event.Name
	err := r.client.create(ctx, event)
	r.Observer.APIWrite(objectEvent, eventResult(err))
	if err != nil {
		s.name = ""
	}
	return err
}

func (r *Reporter) newEvent(e Event, now time.Time) *eventsv1.Event {
	h := fnv.New64a()
	_, _ = h.Write([]byte(e.kind() + strconv.FormatInt(now.UnixNano(), 10))) // a hash takes everything
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	uid := types.UID(r.Node)
	if known := r.uid.Load(); known != nil {
		uid = *known
	}
	return &eventsv1.Event{
		TypeMeta:            metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta:          metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", r.Node, h.Sum64()), Namespace: eventNamespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: Controller, ReportingInstance: r.Node,
		Action: e.Action, Reason: e.Reason, Type: kind, Note: shorten(e.Note),
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.Node, UID: uid},
	}
}

func eventResult(err error) string { return ReasonOf(translateEvent(err)).result() }

// translateEvent gives an error its reason; the Node has nothing to do with it.
func translateEvent(err error) error {
	if apierrors.IsForbidden(err) {
		return &Error{Reason: ReasonForbidden, Err: err}
	}
	return err
}

const eventsResource = "events"

func (c *client) create(ctx context.Context, e *eventsv1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("event %s: %w", e.Name, err)
	}
	return c.events.Post().Namespace(eventNamespace).Resource(eventsResource).Body(body).Do(ctx).Error()
}

// again says of an event that it happened again.
func (c *client) again(ctx context.Context, s *series, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{Count: s.count, LastObservedTime: metav1.NewMicroTime(now)}})
	if err != nil {
		return fmt.Errorf("event %s: %w", s.name, err)
	}
	return c.events.Patch(types.MergePatchType).Namespace(eventNamespace).Resource(eventsResource).Name(s.name).Body(body).Do(ctx).Error()
}
