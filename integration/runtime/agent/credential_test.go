package agent_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// Cases 27 and 33: of two secrets the good one is found; one that is stale or gone is no loss; none is ever shown.
func TestPullSecrets(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, ref := n.Push(t, "lab/private:1", 501, 300*kib)
	n.Registry.Inject(harness.Match{}, harness.BasicAuth("robot$warm", "pa:ss=w:rd"))
	secret := func(name, user, password string) string {
		path := filepath.Join(t.TempDir(), name)
		auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		if err := os.WriteFile(path, fmt.Appendf(nil, `{"auths": {"https://%s/v1/": {"auth": %q}}}`, n.Registry.Host(), auth), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stale, good := secret("stale", "team-x", "old-password"), secret("good", "robot$warm", "pa:ss=w:rd")
	n.configure(t, "a", ref)
	a := n.start(t, "--pull-secret="+stale, "--pull-secret="+good)
	untilReady(t, a, "a")
	if err := os.Remove(good); err != nil {
		t.Fatal(err)
	}
	n.MustCrictl(t, "rmi", ref)
	s := until(t, a, "a", "failed for lack of credentials", func(i status.ImageStatus) bool {
		return failed(cri.ReasonUnauthorized)(i) || ready(i) // what was taken last is remembered
	})
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	n.MustCrictl(t, "rmi", "--all")
	b := n.start(t, "--pull-secret="+stale, "--pull-secret="+good)
	s = until(t, b, "a", "failed for lack of credentials", failed(cri.ReasonUnauthorized))
	for _, word := range []string{stale, good, "no such file"} {
		if !strings.Contains(s.Message, word) {
			t.Errorf("the message does not say %q: %s", word, s.Message)
		}
	}
	secret("good", "robot$warm", "pa:ss=w:rd")
	shown := a.Log() + b.Log() + a.Stdout() + b.Stdout()
	for _, path := range []string{"/v1/status", "/metrics"} {
		_, body, err := b.Get(harness.Deadline(t), path)
		if err != nil {
			t.Fatal(err)
		}
		shown += body
	}
	for _, word := range []string{"old-password", "pa:ss=w:rd", base64.StdEncoding.EncodeToString([]byte("robot$warm:pa:ss=w:rd"))} {
		if strings.Contains(shown, word) {
			t.Errorf("the secret %q is shown", word)
		}
	}
}

// A token of the kubelet's provider that expires in mid-pull is renewed, and the pull goes on.
func TestATokenThatExpiresInThePull(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{MaxConcurrentDownloads: 1})
	img, ref := n.Push(t, "lab/private:1", 511, 200*kib, 8*mib)
	dir := t.TempDir()
	script := `#!/bin/sh
cat > /dev/null
read -r token < ` + dir + `/token
echo "{\"apiVersion\": \"credentialprovider.kubelet.k8s.io/v1\", \"kind\": \"CredentialProviderResponse\", \"cacheKeyType\": \"Registry\",
  \"cacheDuration\": \"12h\", \"auth\": {\"` + n.Registry.Host() + `\": {\"username\": \"AWS\", \"password\": \"$token\"}}}"
`
	config := fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"+
		"  - {name: provider, matchImages: [%q], defaultCacheDuration: 12h, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", n.Registry.Host())
	for name, text := range map[string]string{"provider": script, "config.yaml": config, "token": "first-token\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	slow := img.Layers[1]
	expire := n.Registry.Inject(harness.Match{}, harness.BasicAuth("AWS", "first-token"))
	broken := n.Registry.Inject(harness.GetBlob(slow.Digest), harness.Rate(4*mib), harness.Cut(3*mib))
	n.configure(t, "a", ref)
	a := n.start(t, "--image-credential-provider-config="+filepath.Join(dir, "config.yaml"), "--image-credential-provider-bin-dir="+dir)
	n.inMidLayer(t, slow, 2*mib)
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("second-token\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.Registry.Inject(harness.Match{}, harness.BasicAuth("AWS", "second-token"))
	expire()
	harness.Eventually(t, "the connection broke", func() bool {
		for _, r := range n.Registry.Requests().Filter(harness.GetBlob(slow.Digest)) {
			if r.Status == 401 {
				return true
			}
		}
		return false
	})
	broken()
	untilReady(t, a, "a")
	if sent := n.Fetched(t, img.Layers...); sent > img.Layers[0].Size+slow.Size+2*mib {
		t.Errorf("%d bytes were sent of an image of %d", sent, img.Layers[0].Size+slow.Size)
	}
	if log := a.Log(); strings.Contains(log, "first-token") || strings.Contains(log, "second-token") {
		t.Errorf("the log shows a token:\n%s", log)
	}
}
