package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

func TestPermissions(t *testing.T) {
	c := newCluster(t)
	t.Run("get, watch and patch of its own Node are enough", func(t *testing.T) {
		m := c.joinMachine(t, "enough", labels{node.LabelImagePrefix + "gone": "0123456789ab"})
		i := m.push(t, "a")
		m.configure(t, i.entry)
		c.allow(t, m.name, "get", "watch", "patch")
		o := m.observe(t)
		a := m.start(t, "--kubeconfig="+c.kubeconfigOf(t, m.name))
		o.says(t, 0, said(true, i))
		skip := o.count()
		c.label(t, m.name, labels{node.LabelReady: "-"}) // it is heard of by the watch alone
		o.lacks(t, skip, node.LabelReady)
		o.says(t, skip+1, said(true, i))
		for _, verb := range []string{"list", "update", "delete", "create"} {
			if err := c.mayDo(deadline(t), m.name, verb); err == nil {
				t.Errorf("the account may %s its Node: nothing is proved", verb)
			}
		}
		a.answers(t, "/readyz", http.StatusOK)
		if n := a.writes(t); n > 4 {
			t.Errorf("%d writes, want at most 4", n)
		}
	})
	t.Run("without patch it says so and stays", func(t *testing.T) {
		m := c.joinMachine(t, "no-patch", nil)
		i := m.push(t, "a")
		m.configure(t, i.entry)
		c.allow(t, m.name, "get", "watch")
		o := m.observe(t)
		a := m.start(t, "--kubeconfig="+c.kubeconfigOf(t, m.name))
		a.problem(t, "Forbidden", "Node "+m.name, "allow the agent's account to get, watch and patch its Node")
		a.answers(t, "/readyz", http.StatusOK)
		a.answers(t, "/healthz", http.StatusOK)
		c.allow(t, m.name, "get", "watch", "patch")
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

// account is the user for whom the agent of a Node acts.
func account(name string) string { return "prewarm-" + name }

// allow lets the account of a Node do just this with it, and waits until the API server has taken that in.
func (c *cluster) allow(t *testing.T, name string, verbs ...string) {
	t.Helper()
	ctx := deadline(t)
	meta := metav1.ObjectMeta{Name: account(name)}
	rbac := c.client.RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"nodes"}, ResourceNames: []string{name}, Verbs: verbs,
	}}}
	// The API server takes the update of a role that is not there for its creation.
	if _, err := rbac.ClusterRoles().Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account(name)}},
	}
	if _, err := rbac.ClusterRoleBindings().Update(ctx, binding, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := harness.Poll(ctx, func(ctx context.Context) error {
		for _, verb := range verbs {
			if err := c.mayDo(ctx, name, verb); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mayDo asks whether the account of a Node may do something with it.
func (c *cluster) mayDo(ctx context.Context, name, verb string) error {
	review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: account(name), ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "nodes", Name: name},
		},
	}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = fmt.Errorf("%s may not %s Node %s: %s", account(name), verb, name, review.Status.Reason)
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
