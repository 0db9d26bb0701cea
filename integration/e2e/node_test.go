package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
)

// A Node that does not exist is waited for, and what is wrong is said where people look; one that is created anew under
// the same name is labelled anew.
func TestNodeComesAndGoes(t *testing.T) {
	c := newCluster(t)
	m := c.newMachine(t, "comes-and-goes")
	i := m.push(t, "a")
	m.configure(t, i.entry)
	words := []string{"NodeNotFound", "Node " + m.name, "--node-name", "NODE_NAME"}
	a := m.start(t)
	a.problem(t, words...)
	a.until(t, "there is a runtime and a configuration", func(s status.Snapshot) bool {
		return s.Runtime.Name != "" && s.Configuration.Generation > 0
	})
	a.answers(t, "/readyz", http.StatusServiceUnavailable, words...)
	a.answers(t, "/healthz", http.StatusOK)

	o := m.observe(t)
	first := c.createNode(t, m.name, nil)
	o.says(t, 0, said(true, i))
	a.until(t, "all is well with the Node", func(s status.Snapshot) bool { return s.NodeError == "" && s.Ready })
	a.answers(t, "/readyz", http.StatusOK)

	remove := func() {
		t.Helper()
		if err := c.client.CoreV1().Nodes().Delete(deadline(t), m.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	a.problem(t, words...)
	a.answers(t, "/readyz", http.StatusOK) // it goes on with the images that it knows of
	skip := o.count()
	second := c.createNode(t, m.name, labels{"example.com/pool": "spaces"})
	if first.UID == second.UID {
		t.Fatalf("both Nodes have the UID %s", first.UID)
	}
	o.says(t, skip, said(true, i))

	// At once, as when a cloud provider replaces an instance; the new Node has labels of ours that are not true.
	skip = o.count()
	remove()
	c.createNode(t, m.name, labels{node.LabelImagePrefix + "gone": "0123456789ab", i.key(): "ffffffffffff"})
	o.says(t, skip+1, said(true, i))
	a.until(t, "all is well with the Node", func(s status.Snapshot) bool { return s.NodeError == "" })
	if n := strings.Count(a.Log(), "the Node cannot be told the state"); n < 2 || n > 3 {
		t.Errorf("the log tells %d times that the Node is not there, want once for each time that it was seen", n)
	}
}
