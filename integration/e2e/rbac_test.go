package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

func TestPermissions(t *testing.T) {
	c := newCluster(t)
	if _, err := c.client.CoreV1().Namespaces().Create(deadline(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: placeholders}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("those that are documented are enough", func(t *testing.T) {
		m := c.joinMachine(t, "enough", labels{node.LabelImagePrefix + "gone": "0123456789ab"})
		c.startsWith(t, m.name, corev1.Taint{Key: node.TaintKey, Effect: node.TaintEffect})
		p := c.placeholder(t, "enough", m.name)
		i := m.push(t, "a")
		m.configure(t, i.entry)
		c.allow(t, m.name, node.Permissions()...)
		o := m.observe(t)
		a := m.start(t, "--kubeconfig="+c.kubeconfigOf(t, m.name))
		o.says(t, 0, said(true, i))
		o.conditioned(t, 0, corev1.ConditionTrue, node.ConditionReady)
		c.marked(t, p, true)
		skip := o.count()
		c.label(t, m.name, labels{node.LabelReady: "-"}) // it is heard of by the watch alone
		o.lacks(t, skip, node.LabelReady)
		o.says(t, skip+1, said(true, i))
		if taints := taintsOf(c.node(t, m.name)); len(taints) > 0 {
			t.Errorf("the taints are %v", taints)
		}
		c.told(t, m.name, "Pulled")
		for _, verb := range []string{"list", "update", "delete", "create"} {
			if err := c.mayDo(deadline(t), m.name, node.Permission{Verb: verb, Resource: "nodes"}); err == nil {
				t.Errorf("the account may %s its Node: nothing is proved", verb)
			}
		}
		a.answers(t, "/readyz", http.StatusOK)
		// Four, one for the label that was wrong from the beginning, and one for the label that somebody took away.
		if n := a.writesOf(t, "node") + a.writesOf(t, "node/status"); n > 6 {
			t.Errorf("%d writes to the Node, want at most 6", n)
		}
		for _, object := range []string{"node", "node/status", "pod", "pod/status", "event"} {
			if a.writesOf(t, object) == 0 {
				t.Errorf("nothing was written to %s: nothing is proved", object)
			}
		}
	})
	// An older role: what it allows is done, without delay.
	t.Run("those for labels alone are enough for labels", func(t *testing.T) {
		m := c.joinMachine(t, "labels", nil)
		i := m.push(t, "a")
		m.configure(t, i.entry)
		c.allow(t, m.name, ofNode("get", "watch", "patch")...)
		o := m.observe(t)
		a := m.start(t, "--kubeconfig="+c.kubeconfigOf(t, m.name))
		o.says(t, 0, said(true, i))
		a.problem(t, "Forbidden", "nodes/status")
		skip := o.count()
		c.label(t, m.name, labels{node.LabelReady: "-"})
		o.lacks(t, skip, node.LabelReady)
		o.says(t, skip+1, said(true, i))
		a.answers(t, "/readyz", http.StatusOK)
	})
	t.Run("without patch it says so and stays", func(t *testing.T) {
		m := c.joinMachine(t, "no-patch", nil)
		i := m.push(t, "a")
		m.configure(t, i.entry)
		c.allow(t, m.name, ofNode("get", "watch")...)
		o := m.observe(t)
		a := m.start(t, "--kubeconfig="+c.kubeconfigOf(t, m.name))
		a.problem(t, "Forbidden", "Node "+m.name, "allow the agent's account to get, watch and patch its Node")
		a.answers(t, "/readyz", http.StatusOK)
		a.answers(t, "/healthz", http.StatusOK)
		a.until(t, "the node is ready", func(s status.Snapshot) bool { return s.Ready })
		c.allow(t, m.name, ofNode("get", "watch", "patch")...)
		// A new state does not wait for the end of the pause.
		m.crictl(t, "rmi", i.reference)
		o.says(t, 0, said(true, i))
	})
	t.Run("without get it says so and stays", func(t *testing.T) {
		m := c.joinMachine(t, "nothing", nil)
		m.configure(t, m.push(t, "a").entry)
		a := m.start(t, "--kubeconfig="+c.kubeconfigOf(t, m.name))
		a.problem(t, "Forbidden", "Node "+m.name, "allow the agent's account to get, watch and patch its Node")
		a.answers(t, "/readyz", http.StatusServiceUnavailable, "Forbidden")
		a.answers(t, "/healthz", http.StatusOK)
	})
}

// ofNode are permissions for the Node.
func ofNode(verbs ...string) []node.Permission {
	var out []node.Permission
	for _, verb := range verbs {
		out = append(out, node.Permission{Verb: verb, Resource: "nodes"})
	}
	return out
}

// account is the user for whom the agent of a Node acts.
func account(name string) string { return "prewarm-" + name }

// namespaceOf is where a permission is granted; empty for the whole cluster.
func namespaceOf(p node.Permission) string {
	switch p.Namespace {
	case node.ScopePlaceholders:
		return placeholders
	default:
		return string(p.Namespace)
	}
}

// allow lets the account of a Node do just this, with no other Node, and waits until the API server has taken that in.
func (c *cluster) allow(t *testing.T, name string, permissions ...node.Permission) {
	t.Helper()
	ctx := deadline(t)
	meta := metav1.ObjectMeta{Name: account(name)}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account(name)}}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, p := range permissions {
		rule := rbacv1.PolicyRule{APIGroups: []string{p.Group}, Resources: []string{p.Resource}, Verbs: []string{p.Verb}}
		if namespaceOf(p) == "" {
			rule.ResourceNames = []string{name}
		}
		rules[namespaceOf(p)] = append(rules[namespaceOf(p)], rule)
	}
	rbac := c.client.RbacV1()
	for namespace, list := range rules {
		var roleErr, bindingErr error
		// The API server takes the update of a role that is not there for its creation.
		if namespace == "" {
			_, roleErr = rbac.ClusterRoles().Update(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: list}, metav1.UpdateOptions{})
			_, bindingErr = rbac.ClusterRoleBindings().Update(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}, Subjects: subjects,
			}, metav1.UpdateOptions{})
		} else {
			_, roleErr = rbac.Roles(namespace).Update(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: list}, metav1.UpdateOptions{})
			_, bindingErr = rbac.RoleBindings(namespace).Update(ctx, &rbacv1.RoleBinding{
				ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: subjects,
			}, metav1.UpdateOptions{})
		}
		if err := errors.Join(roleErr, bindingErr); err != nil {
			t.Fatal(err)
		}
	}
	err := harness.Poll(ctx, func(ctx context.Context) error {
		for _, p := range permissions {
			if err := c.mayDo(ctx, name, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mayDo asks whether the account of a Node may do something; with a Node, with that one.
func (c *cluster) mayDo(ctx context.Context, name string, p node.Permission) error {
	resource, sub, _ := strings.Cut(p.Resource, "/")
	attributes := &authorizationv1.ResourceAttributes{Verb: p.Verb, Group: p.Group, Resource: resource, Subresource: sub, Namespace: namespaceOf(p)}
	if attributes.Namespace == "" {
		attributes.Name = name
	}
	review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: account(name), ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = fmt.Errorf("%s may not %s %s: %s", account(name), p.Verb, p.Resource, review.Status.Reason)
	}
	return err
}

// kubeconfigOf is a file with which the agent of a Node acts as its account, which RBAC binds.
func (c *cluster) kubeconfigOf(t *testing.T, name string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = account(name)
	}
	path := filepath.Join(harness.Dir(t), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
