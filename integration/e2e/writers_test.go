package e2e_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/prewarm-dev/prewarm/agent/node"
)

const (
	// idle is how long a test looks at an agent that has nothing to do.
	idle = 10 * time.Second
	// settled is how long the Node must be quiet until the agent has counted, too, what others have seen.
	settled = time.Second
	// quarrel is how long somebody undoes what the agent writes.
	quarrel = 4 * time.Second
	// counter is a label that another client of the test's changes.
	counter = "example.com/counter"
)

func TestOtherWriters(t *testing.T) {
	c := newCluster(t)
	t.Run("lose nothing and take nothing", func(t *testing.T) { conflicts(t, c) })
	t.Run("that undo get a bounded answer", func(t *testing.T) { quarrels(t, c) })
}

// conflicts holds that neither we nor somebody who updates the whole Node again and again loses a write.
func conflicts(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "conflicts", labels{"example.com/pool": "spaces"})
	i, j := m.push(t, "a"), m.push(t, "b")
	m.configure(t, i.entry, j.entry)
	o := m.observe(t)
	a := m.start(t)
	o.says(t, 0, said(true, i, j))
	count := c.countUp(t, m.name)
	const rounds = 10
	for range rounds {
		skip := o.count()
		m.crictl(t, "rmi", i.reference)
		o.says(t, skip, said(false, j))
		skip = o.count()
		m.crictl(t, "pull", i.reference)
		o.says(t, skip, said(true, i, j))
	}
	last := count()
	want := said(true, i, j)
	want["example.com/pool"], want[counter] = "spaces", strconv.Itoa(last)
	if diff := cmp.Diff(want, c.node(t, m.name).Labels); diff != "" {
		t.Errorf("labels in the end (-want +got):\n%s", diff)
	}
	// Two changes a round and the first labels; more are tries that another write has crossed.
	n, most := a.writes(t), 2*(2*rounds+2)
	t.Logf("%d updates by somebody else, %d writes by the agent", last, n)
	if last < rounds || n > most {
		t.Errorf("%d updates by somebody else and %d writes by the agent, want at least %d and at most %d", last, n, rounds, most)
	}
	before := 0
	all, _ := o.all()
	for _, s := range all {
		n, err := strconv.Atoi(s.node.Labels[counter])
		if err != nil && s.node.Labels[counter] != "" || n < before {
			t.Fatalf("the counter went from %d to %q", before, s.node.Labels[counter])
		}
		before = n
	}
}

// countUp begins to update the whole Node with the optimistic lock, again and again. The function that it gives ends that
// and tells the last count.
func (c *cluster) countUp(t *testing.T, name string) (end func() int) {
	t.Helper()
	ctx := deadline(t)
	stop, ended := make(chan struct{}), make(chan struct{})
	count, failure := 0, error(nil)
	go func() {
		defer close(ended)
		for ; failure == nil; count++ {
			select {
			case <-stop:
				return
			default:
			}
			failure = retry.RetryOnConflict(retry.DefaultBackoff, func() error { return c.setCounter(ctx, name, count+1) })
		}
	}()
	end = sync.OnceValue(func() int {
		close(stop)
		<-ended
		if failure != nil {
			t.Errorf("update %d: %v", count, failure)
		}
		return count
	})
	t.Cleanup(func() { end() })
	return end
}

// setCounter reads the Node, changes one label, and writes it whole.
func (c *cluster) setCounter(ctx context.Context, name string, to int) error {
	nodes := c.client.CoreV1().Nodes()
	n, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	n.Labels[counter] = strconv.Itoa(to)
	_, err = nodes.Update(ctx, n, metav1.UpdateOptions{FieldManager: "somebody"})
	return err
}

// quarrels holds that a label which somebody removes comes back, by one write each and at most about one a second, and
// that an agent with nothing to do writes nothing.
func quarrels(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "quarrel", nil)
	i := m.push(t, "a")
	m.configure(t, i.entry)
	o := m.observe(t)
	a := m.start(t)
	all := said(true, i)
	o.says(t, 0, all)
	o.quiet(t, settled)
	before := a.writes(t)
	if before > 2 {
		t.Errorf("%d writes for the first labels, want at most 2", before)
	}
	o.quiet(t, idle)
	if n := a.writes(t) - before; n != 0 {
		t.Errorf("%d writes by an agent that has nothing to do, want 0", n)
	}

	for _, key := range []string{node.LabelReady, i.key()} {
		skip := o.count()
		c.label(t, m.name, labels{key: "-"})
		o.lacks(t, skip, key)
		o.says(t, skip+1, all)
	}
	skip := o.count()
	c.label(t, m.name, labels{node.LabelReady: "maybe", i.key(): "ffffffffffff"})
	o.first(t, skip, "have a false label", func(s sight) bool { return s.node.Labels[node.LabelReady] == "maybe" })
	o.says(t, skip+1, all)
	o.quiet(t, settled)
	if n := a.writes(t) - before; n != 3 {
		t.Errorf("%d writes for three changes by hand, want 3", n)
	}

	before = a.writes(t)
	removals := removeAll(t, c, m.name, quarrel)
	c.label(t, m.name, labels{counter: "0"}) // what is seen with it is after the last removal
	o.first(t, 0, "have its labels after all", func(s sight) bool { return s.node.Labels[counter] != "" && cmp.Equal(s.ours(), all) })
	o.quiet(t, 2*settled)
	n, most := a.writes(t)-before, int(quarrel/time.Second)+2
	t.Logf("%d removals within %v, %d writes", removals, quarrel, n)
	if removals < 20 || n < 1 || n > most {
		t.Errorf("%d removals and %d writes, want at least 20, and 1 to %d", removals, n, most)
	}
}

// removeAll removes the label again and again for a while; it gives how often.
func removeAll(t *testing.T, c *cluster, name string, d time.Duration) (n int) {
	t.Helper()
	ctx := deadline(t)
	body := []byte(`{"metadata":{"labels":{"` + node.LabelReady + `":null}}}`)
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		_, err := c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}
