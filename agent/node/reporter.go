package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Observer counts what is done at the API server.
type Observer interface {
	// FailedOpen counts that the startup taint was taken off a Node whose images are not ready.
	FailedOpen()
	// APIWrite counts a write: the kind of the object in lower case, with its subresource, and success, conflict, forbidden, missing or failure.
	APIWrite(object, result string)
}

// Options says which Node it is and how to reach it.
type Options struct {
	// Config is the way to the API server. Its limits and content types are set here.
	Config *rest.Config
	// Node is the name of the Node.
	Node string
	// UserAgent names us in the API server's log.
	UserAgent string
	// AskKubelet asks the kubelet for its thresholds, once.
	AskKubelet bool
	// Placeholders are the pods that are marked while the node is ready.
	Placeholders Placeholders
	Observer     Observer
	// Problem is told why the Node does not say what it should, and nil when it does again.
	Problem func(error)
	Logger  *slog.Logger
}

// Reporter keeps what the Node says in line with the state of this node. When it ends it leaves all as it is: images do
// not vanish when the agent restarts.
type Reporter struct {
	Options

	client *client
	facts  chan Facts
	events chan Event
	// uid is that of the Node, once one has been seen.
	uid atomic.Pointer[types.UID]

	// What follows belongs to the goroutine of Run.

	state  State
	object *object // nil while there is no Node, or none has been seen
	// passed are the facts that were passed on last.
	passed  Facts
	kubelet Thresholds
	// unseen and unwritten are why the Node cannot be seen, and written.
	unseen, unwritten error
	told              Reason
	duties            []*duty
	// started is when Run began, and patience ends when a node with the startup taint is given up.
	started  time.Time
	patience *time.Timer
}

// NewReporter makes a Reporter; it asks the API server nothing yet.
func NewReporter(o Options) (*Reporter, error) {
	c, err := newClient(o.Config, o.UserAgent, o.Node, o.Logger)
	if err != nil {
		return nil, err
	}
	return &Reporter{Options: o, client: c, facts: make(chan Facts, 1), events: make(chan Event, eventQueue)}, nil
}

// Check asks the API server for the Node, once. The error is an *Error that says what to do: the Node is not there
// (ErrNodeNotFound), the API server cannot be reached (ErrAPIServerUnavailable), and so on.
func (r *Reporter) Check(ctx context.Context) error {
	_, err := r.client.get(ctx)
	return err
}

// Facts gives what the Node says of itself, and its changes, while Run runs. Who is late gets the newest only.
func (r *Reporter) Facts() <-chan Facts { return r.facts }

// Run keeps the Node as the newest of the states says until ctx ends; states must end then too. Before the first state it
// changes nothing.
func (r *Reporter) Run(ctx context.Context, states iter.Seq[State]) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	desired := make(chan State, 1)
	marker := newMarker(r)
	wg.Go(func() {
		for s := range states {
			replace(desired, s)
			replace(marker.ready, s.Readiness)
		}
	})
	if r.Placeholders.Namespace != "" {
		wg.Go(func() { marker.run(ctx) })
		wg.Go(func() { marker.watchPods(ctx) })
	}
	sightings := make(chan sighting)
	wg.Go(func() { r.watchNode(ctx, sightings) })
	wg.Go(func() { r.postEvents(ctx) })

	r.started = time.Now()
	// The label first, since pods choose by it.
	r.duties = []*duty{{due: r.labelsDue}, {due: r.taintOff, wrote: r.tellFailedOpen}, {due: r.conditionDue}}
	r.patience = time.NewTimer(settle)
	r.patience.Stop()
	defer r.patience.Stop()
	rest := time.NewTimer(settle)
	rest.Stop()
	for {
		force := true
		select {
		case <-ctx.Done():
			return nil
		case s := <-desired:
			if s.equal(r.state) {
				continue
			}
			r.state = s
		case s := <-sightings:
			force = r.see(ctx, s)
		case <-r.patience.C:
		case <-rest.C:
			force = false
		}
		if next := r.reconcile(ctx, force); !next.IsZero() {
			rest.Reset(time.Until(next))
		}
	}
}

// see takes in what was seen of the Node. It is urgent where the Node, or the API server, has come back.
func (r *Reporter) see(ctx context.Context, s sighting) (urgent bool) {
	if s.kubelet != nil {
		r.kubelet = *s.kubelet
		if r.object != nil {
			r.keep(r.object)
		}
		return false
	}
	if s.err != nil || !s.fresh { // that the Node can be read does not mean that it can be watched
		r.unseen = s.err
	}
	defer r.tell(ctx)
	switch {
	case errors.Is(s.err, ErrNodeNotFound):
		r.object = nil
		return false
	case s.err != nil: // it is as it was, as far as we know
		return false
	case !s.fresh && s.object.olderThan(r.object):
		return false
	}
	urgent = s.fresh || r.object == nil
	r.keep(s.object)
	return urgent
}

// keep remembers how the Node is, and passes on what it says of itself.
func (r *Reporter) keep(o *object) {
	facts := o.facts
	facts.Kubelet = r.kubelet
	if r.object == nil || !facts.equal(r.passed) {
		r.passed = facts
		replace(r.facts, facts)
	}
	r.object = o
	r.uid.Store(&o.uid)
}

// duty is one of the things that the Node must say. What goes wrong with one keeps no other from being said.
type duty struct {
	// due gives what must be written; nil where the Node says it.
	due func() *patch
	// wrote tells of what was written; nil where there is nothing to tell.
	wrote func(ctx context.Context)
	// rest is until when the Node's changes are not answered, and failures counts those in a row.
	rest     time.Time
	failures int
	err      error
}

// reconcile makes the Node say the state, if it does not: what is new at once, and what only changed on the Node when the rest
// after the last write is over. It gives when that is the next time; zero where nothing rests.
func (r *Reporter) reconcile(ctx context.Context, force bool) (next time.Time) {
	if r.object == nil {
		return time.Time{}
	}
	var first error
	for _, d := range r.duties {
		if r.object == nil || ctx.Err() != nil { // there is none any more, or we are to stop
			break
		}
		if now := time.Now(); force || !now.Before(d.rest) {
			r.do(ctx, d)
		}
		if d.rest.After(time.Now()) && (next.IsZero() || d.rest.Before(next)) {
			next = d.rest
		}
		if first == nil {
			first = d.err
		}
	}
	if ctx.Err() == nil {
		r.unwritten = first
		r.tell(ctx)
	}
	return next
}

// do writes what a duty demands, and says how long it rests then.
func (r *Reporter) do(ctx context.Context, d *duty) {
	wrote, err := r.writeOne(ctx, d.due)
	if ctx.Err() != nil {
		return
	}
	d.err = err
	switch {
	case err != nil:
		d.failures++
		d.rest = time.Now().Add(pause(d.failures, ReasonOf(err).seldom()))
	case wrote:
		d.failures, d.rest = 0, time.Now().Add(settle)
		if d.wrote != nil {
			d.wrote(ctx)
		}
	}
}

// writeOne patches what is due. If somebody was faster, or it is another Node by now, the Node is read and what then is due is
// patched, once more.
func (r *Reporter) writeOne(ctx context.Context, due func() *patch) (wrote bool, err error) {
	for range 2 {
		p := due()
		if p == nil {
			return false, nil
		}
		var o *object
		o, err = r.client.patch(ctx, p)
		r.Observer.APIWrite(p.object, ReasonOf(err).result())
		if err == nil {
			r.Logger.InfoContext(ctx, "wrote to the Node", "node", r.Node, "change", p.what)
			r.keep(o)
			return true, nil
		}
		if !errors.Is(err, ErrConflict) {
			return false, r.missed(err)
		}
		o, readErr := r.client.get(ctx)
		if readErr != nil {
			return false, r.missed(readErr)
		}
		r.keep(o)
	}
	return false, err
}

// tellFailedOpen tells, once the startup taint is off, that the Node takes pods though its images are not ready, if they are not.
func (r *Reporter) tellFailedOpen(ctx context.Context) {
	if r.state.Readiness == Ready {
		return
	}
	_, why := r.state.missing()
	r.Observer.FailedOpen()
	r.Logger.WarnContext(ctx, "the node is given up: it takes pods although its images are not ready", "node", r.Node, "after", r.state.FailOpenAfter, "why", why)
	r.Post(Event{
		Warning: true, Reason: EventFailedOpen, Action: "RemoveStartupTaint",
		Note: fmt.Sprintf("the startup taint %s is taken off after %v although images are not ready: %s", TaintKey, r.state.FailOpenAfter, why),
	})
}

func (r *Reporter) labelsDue() *patch {
	change := difference(r.state, r.object.labels)
	if len(change) == 0 {
		return nil
	}
	return labelPatch(objectNode, r.object.uid, change)
}

func (r *Reporter) conditionDue() *patch { return r.state.conditionDue(r.object, time.Now()) }

// taintOff gives the removal of the startup taint where it is due, and otherwise looks when it will be.
func (r *Reporter) taintOff() *patch {
	p, deadline := r.taintDue(time.Now())
	r.patience.Stop()
	if !deadline.IsZero() {
		r.patience.Reset(time.Until(deadline))
	}
	return p
}

// missed forgets the Node where an error says that there is none; the watch tells when it is back.
func (r *Reporter) missed(err error) error {
	if errors.Is(err, ErrNodeNotFound) {
		r.object = nil
	}
	return err
}

// tell says why the Node does not say what it should, when that changes.
func (r *Reporter) tell(ctx context.Context) {
	err := r.unseen
	if err == nil {
		err = r.unwritten
	}
	reason := ReasonOf(err)
	if reason == r.told {
		return
	}
	r.told = reason
	if err == nil {
		r.Logger.InfoContext(ctx, "the Node can be told the state again", "node", r.Node)
	} else {
		r.Logger.WarnContext(ctx, "the Node cannot be told the state", "node", r.Node, "reason", reason, "error", err)
	}
	r.Problem(err)
}

// replace puts a value into a channel of one place, in which only the newest counts and only one goroutine puts.
func replace[T any](to chan T, value T) {
	select {
	case <-to:
	default:
	}
	to <- value
}
