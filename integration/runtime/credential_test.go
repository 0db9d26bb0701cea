package runtime_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// Cases 22, 23 and 26: a registry gets the credential that is for it, exactly as it is; nobody else does, and nothing shows it.
func TestCredentials(t *testing.T) {
	for name, o := range map[string]harness.ContainerdOptions{"transfer": {}, "local": {LocalPull: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, o)
			_, img := n.push(t, "lab/private:1", layers(random(121, 100*kib)))
			secret := cri.Credential{Username: "robot$warm", Password: "pa:ss=w:rd\n"}
			n.reg.Inject(harness.Match{}, harness.BasicAuth(secret.Username, secret.Password))

			for _, wrong := range []*cri.Credential{nil, {Username: "robot$warm", Password: "wrong-secret"}} {
				_, err := n.cri.Resolve(deadline(t), img.Reference, wrong)
				if cri.ReasonOf(err) != cri.ReasonUnauthorized {
					t.Errorf("Resolve with %v: %v, want %s", wrong, err, cri.ReasonUnauthorized)
				}
				_, pullErr := tryPull(deadline(t), n.cri, img, cri.PullOptions{Credential: wrong})
				if cri.ReasonOf(pullErr) != cri.ReasonUnauthorized {
					t.Errorf("Pull with %v: %v, want %s", wrong, pullErr, cri.ReasonUnauthorized)
				}
				if text := fmt.Sprintf("%v %+v %v %+v", err, err, pullErr, wrong); strings.Contains(text, "wrong-secret") {
					t.Errorf("an error shows the secret: %s", text)
				}
			}
			if _, err := n.cri.Resolve(deadline(t), img.Reference, &secret); err != nil {
				t.Errorf("Resolve: %v", err)
			}
			if _, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Credential: &secret}); err != nil {
				t.Fatal(err)
			}
			n.ready(t, img)
		})
	}
}

// Case 22: what is meant for the registry is not sent to its mirror, which is asked first.
func TestCredentialsAreNotForMirrors(t *testing.T) {
	for name, local := range map[string]bool{"transfer": false, "local": true} {
		t.Run(name, func(t *testing.T) {
			mirror, upstream := harness.NewRegistry(t, harness.RegistryOptions{}), harness.NewRegistry(t, harness.RegistryOptions{})
			certsD := harness.Dir(t)
			text := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", upstream.URL(), mirror.URL())
			writeFile(t, filepath.Join(certsD, upstream.Host(), "hosts.toml"), text)
			n := joinNode(t, upstream, harness.ContainerdOptions{RegistryConfigPath: certsD, LocalPull: local})
			_, img := n.push(t, "lab/private:1", layers(random(122, 100*kib)))
			secret := &cri.Credential{Username: "u-bot", Password: "u-pw"}
			upstream.Inject(harness.Match{}, harness.BasicAuth(secret.Username, secret.Password))
			mirror.Inject(harness.Match{}, harness.Status(401, "WWW-Authenticate", `Basic realm="mirror"`))
			mirror.Forget()

			if _, err := n.cri.Resolve(deadline(t), img.Reference, secret); err != nil {
				t.Errorf("Resolve: %v", err)
			}
			if _, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Credential: secret}); err != nil {
				t.Fatal(err)
			}
			n.ready(t, img)
			asked := mirror.Requests()
			if len(asked) == 0 {
				t.Error("the mirror was not asked at all: this test shows nothing")
			}
			if slices.ContainsFunc(asked, func(r harness.Request) bool { return r.Authorization != "" }) {
				t.Errorf("the mirror was told the secret:\n%s", asked)
			}
		})
	}
}
