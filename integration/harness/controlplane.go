package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

const controllerTimeout = time.Minute

// ControlPlane is a whole control plane: API server, controller manager and scheduler, on an etcd of its own. Pods get tokens of
// their ServiceAccounts, Deployments make pods, and pods are bound to Nodes.
type ControlPlane struct {
	*APIServer
}

// NewControlPlane starts a control plane for a test. It takes about six seconds.
func NewControlPlane(t T) *ControlPlane {
	t.Helper()
	etcd := NewEtcd(t)
	dir := Dir(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, cert, key, err := clientCertificate("apiserver", "system:masters")
	if err != nil {
		t.Fatalf("API server: %v", err)
	}
	for name, content := range map[string][]byte{"kubelet-ca.crt": ca, "kubelet-client.crt": cert, "kubelet-client.key": key} {
		if err := writeFile(file(name), content); err != nil {
			t.Fatalf("API server: %v", err)
		}
	}
	s, err := StartAPIServer(t.Context(), dir, etcd.URL, APIServerOptions{ServiceAccounts: true, Args: []string{
		"--kubelet-preferred-address-types=Hostname", "--kubelet-client-certificate=" + file("kubelet-client.crt"), "--kubelet-client-key=" + file("kubelet-client.key"),
	}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	atEnd(t, "kube-apiserver", s.Log(), func() error {
		s.Kill() // in good order it waits for watches, which components hold
		return nil
	})
	c := &ControlPlane{APIServer: s}
	c.run(t, "kube-controller-manager", "--service-account-private-key-file="+s.file("sa.key"), "--root-ca-file="+s.caFile(),
		"--use-service-account-credentials=false", "--leader-elect=false",
		"--node-monitor-grace-period=1h") // nobody renews the leases of Nodes without a kubelet
	c.run(t, "kube-scheduler", "--leader-elect=false")
	return c
}

// run starts a component of Kubernetes that serves its health on a secure port.
func (c *ControlPlane) run(t T, name string, args ...string) {
	t.Helper()
	port, err := FreePort(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	log := c.file(name + ".log")
	args = append(args, "--kubeconfig="+c.Kubeconfig(), fmt.Sprintf("--secure-port=%d", port), "--bind-address=127.0.0.1",
		"--cert-dir="+c.file(name), "--authorization-always-allow-paths=/healthz")
	p, err := command{name: name, args: args, env: nil, log: log, ownMounts: false}.start(t.Context(), controllerTimeout, c.healthy(name, port))
	if err != nil {
		t.Fatalf("%v", err)
	}
	atEnd(t, name, log, p.stop)
}

// healthy asks a component on its port, with the certificate that it has made for itself.
func (c *ControlPlane) healthy(name string, port int) func(context.Context) error {
	return func(ctx context.Context) error {
		ca := filepath.Join(c.file(name), name+".crt")
		if _, err := os.Stat(ca); err != nil {
			return err
		}
		transport, err := rest.TransportFor(&rest.Config{Host: loopback(port), TLSClientConfig: rest.TLSClientConfig{CAFile: ca}})
		if err != nil {
			return err
		}
		return answers(&http.Client{Transport: transport, Timeout: 2 * time.Second}, "https://"+loopback(port)+"/healthz")(ctx)
	}
}
