package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

// TestAPIServer walks through the life of one: Nodes, who may do what, kubectl, and what survives a kill and a restart. It
// is one test because to start an API server takes seconds.
func TestAPIServer(t *testing.T) {
	api := harness.NewAPIServer(t)
	if _, err := api.CreateNode(t.Context(), "n1", map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CreateNode(t.Context(), "n1", nil); err == nil || !strings.Contains(err.Error(), "n1") {
		t.Errorf("a Node that exists: %v, want an error that names it", err)
	}
	t.Run("kubectl", func(t *testing.T) { holdKubectl(t, api) })
	t.Run("RBAC", func(t *testing.T) { holdRBAC(t, api) })
	t.Run("restart", func(t *testing.T) { holdRestart(t, api) })
}

// holdKubectl holds that the kubeconfig is enough for kubectl, with nothing of the harness around it.
func holdKubectl(t *testing.T, api *harness.APIServer) {
	t.Helper()
	out, err := api.Kubectl(t.Context(), "get", "nodes", "-l", "a=b", "-o", "name")
	if err != nil || strings.TrimSpace(out) != "node/n1" {
		t.Errorf("kubectl prints %q, %v, want node/n1", out, err)
	}
	if out, err := api.Kubectl(t.Context(), "get", "node", "n2"); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("kubectl prints %q, %v of a Node that is not there, want its NotFound", out, err)
	}
	kubectl, err := harness.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "label", "node", "n1", "c=d")
	cmd.Env = []string{"KUBECONFIG=" + api.Kubeconfig(), "HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// holdRBAC holds that the API server knows of somebody only what a role says.
func holdRBAC(t *testing.T, api *harness.APIServer) {
	t.Helper()
	somebody := api.Config()
	somebody.Impersonate = rest.ImpersonationConfig{UserName: "somebody"}
	nodes := kubernetes.NewForConfigOrDie(somebody).CoreV1().Nodes()
	if _, err := nodes.Get(t.Context(), "n1", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody without a role reads a Node: %v, want it to be forbidden", err)
	}
	roles := kubernetes.NewForConfigOrDie(api.Config()).RbacV1()
	name := metav1.ObjectMeta{Name: "reader"}
	if _, err := roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := roles.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "somebody"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := harness.Poll(ctx, func(ctx context.Context) error { // the authorizer hears of a binding a little later
		_, err := nodes.Get(ctx, "n1", metav1.GetOptions{})
		return err
	}); err != nil {
		t.Errorf("somebody with a role reads a Node: %v", err)
	}
	if err := nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody removes a Node, which the role does not say: %v, want it to be forbidden", err)
	}
}

// holdRestart holds that the same client finds the API server on the same port after a kill and after a stop, with what it
// knew.
func holdRestart(t *testing.T, api *harness.APIServer) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(api.Config()).CoreV1().Nodes()
	ca, err := os.ReadFile(filepath.Join(api.Dir, "certs", "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"kill", "stop"} {
		if how == "kill" {
			api.Kill()
		} else if err := api.Stop(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := client.Get(ctx, "n1", metav1.GetOptions{}); err == nil {
			t.Errorf("an API server answers after its %s", how)
		}
		cancel()
		if err := api.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		node, err := client.Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("after %s and restart: %v", how, err)
		}
		if diff := cmp.Diff(map[string]string{"a": "b", "c": "d"}, node.Labels); diff != "" {
			t.Errorf("labels after %s and restart:\n%s", how, diff)
		}
	}
	again, err := os.ReadFile(filepath.Join(api.Dir, "certs", "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(ca), string(again)); diff != "" {
		t.Errorf("another certificate after a restart:\n%s", diff)
	}
}

// TestEtcd holds that an etcd comes back on its ports after a stop and after a kill.
func TestEtcd(t *testing.T) {
	etcd := harness.NewEtcd(t)
	if err := etcd.Stop(); err != nil {
		t.Fatal(err)
	}
	etcd.Kill() // of what has ended is nothing
	if err := etcd.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	etcd.Kill()
	if err := etcd.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}
