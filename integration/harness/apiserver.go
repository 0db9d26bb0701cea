package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	apiServerTimeout = time.Minute
	// adminToken is the bearer token of a member of system:masters. It is worth nothing outside of the harness.
	adminToken = "harness-admin"
)

// APIServer is a kube-apiserver with RBAC, alone: no controller manager, no scheduler, no kubelet. So there are neither
// ServiceAccounts that one did not create, nor tokens for them that one did not request.
type APIServer struct {
	// Dir is its folder: certificates, keys, kubeconfig, log.
	Dir string
	// URL is where its clients find it, also after a restart.
	URL string

	args []string
	proc *process
}

// APIServerOptions says how an API server is started.
type APIServerOptions struct {
	// ServiceAccounts has pods act as ServiceAccounts and mounts tokens of theirs, for which a controller manager is needed.
	ServiceAccounts bool
	// Args are further arguments.
	Args []string
}

// StartAPIServer starts a kube-apiserver in dir on the etcd at etcdURL, and waits until it is ready, which takes about
// four seconds.
func StartAPIServer(ctx context.Context, dir, etcdURL string, o APIServerOptions) (*APIServer, error) {
	port, err := FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	s := &APIServer{Dir: dir, URL: "https://" + loopback(port)}
	private, public, err := keyPair()
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	for name, content := range map[string][]byte{
		"sa.key": private, "sa.pub": public, "tokens.csv": []byte(adminToken + `,admin,admin,"system:masters"` + "\n"),
	} {
		if err := writeFile(s.file(name), content); err != nil {
			return nil, fmt.Errorf("API server: %w", err)
		}
	}
	s.args = []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + s.file("certs"), "--token-auth-file=" + s.file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.232.0.0/24",
		"--service-account-signing-key-file=" + s.file("sa.key"), "--service-account-key-file=" + s.file("sa.pub"),
		"--endpoint-reconciler-type=none", "--allow-privileged=true", "--shutdown-delay-duration=0s",
	}
	if !o.ServiceAccounts { // nobody would create the ServiceAccount that it waits for
		s.args = append(s.args, "--disable-admission-plugins=ServiceAccount")
	}
	s.args = append(s.args, o.Args...)
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, s.writeKubeconfig()
}

// NewAPIServer starts a kube-apiserver for a test, on an etcd of its own.
func NewAPIServer(t T) *APIServer {
	t.Helper()
	etcd := NewEtcd(t)
	s, err := StartAPIServer(t.Context(), Dir(t), etcd.URL, APIServerOptions{ServiceAccounts: false, Args: nil})
	if err != nil {
		t.Fatalf("%v", err)
	}
	atEnd(t, "kube-apiserver", s.Log(), s.Stop)
	return s
}

// Log is the file with what the API server has logged since its first start.
func (s *APIServer) Log() string { return s.file("kube-apiserver.log") }

// Kubeconfig is a file with which kubectl and others reach the API server as its administrator.
func (s *APIServer) Kubeconfig() string { return s.file("kubeconfig") }

// Config is the same for client-go. Set its Impersonate to act as somebody whom RBAC binds.
func (s *APIServer) Config() *rest.Config {
	return &rest.Config{
		Host: s.URL, BearerToken: adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.caFile()},
	}
}

// Kubectl runs kubectl as the administrator and gives what it printed to stdout.
func (s *APIServer) Kubectl(ctx context.Context, args ...string) (string, error) {
	return tool(ctx, "kubectl", append([]string{"--kubeconfig=" + s.Kubeconfig(), "--cache-dir=" + s.file("kubectl")}, args...))
}

// Stop ends the API server in good order. It may be called again, and after Kill.
func (s *APIServer) Stop() error { return s.proc.stop() }

// Kill ends the API server at once.
func (s *APIServer) Kill() { s.proc.kill() }

// Restart stops the API server where it still runs and starts it on the same port with the same certificate.
func (s *APIServer) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *APIServer) start(ctx context.Context) (err error) {
	s.proc, err = command{name: "kube-apiserver", args: s.args, log: s.Log()}.start(ctx, apiServerTimeout, s.ready)
	return err
}

// ready wants the API server's own word, and that the built-in roles are there.
func (s *APIServer) ready(ctx context.Context) error {
	if _, err := os.Stat(s.caFile()); err != nil {
		return err
	}
	transport, err := rest.TransportFor(s.Config())
	if err != nil {
		return err
	}
	return answers(&http.Client{Transport: transport, Timeout: 2 * time.Second}, s.URL+"/readyz")(ctx)
}

func (s *APIServer) writeKubeconfig() error {
	const name = "lab"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthority: s.caFile()}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: adminToken}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, s.Kubeconfig()); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

func (s *APIServer) file(name string) string { return filepath.Join(s.Dir, name) }

// caFile has the certificate that the API server makes for itself at its first start.
func (s *APIServer) caFile() string { return s.file("certs/apiserver.crt") }
