package credentials

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
)

// Case 23: neither a secret nor its base64 is in a log, an error, or whatever a value is printed with.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	encoded := base64.StdEncoding.EncodeToString([]byte("u:topsecret"))
	file := NewSecret(write(t, fmt.Sprintf(`{"auths": {%q: {"auth": %q, "username": "other", "password": "topsecret too"}}}`, ecrHost, encoded)))
	provider := newProvider(t, answer(`"cacheKeyType": "Registry", `+auth)).one(t)
	broken := newProvider(t, `echo topsecret; echo topsecret >&2; exit 1`).one(t)
	ecr := (&aws{}).source(t)
	k := NewKeychain(logger, file, broken, provider, ecr)
	ref, seen := parse(t, ecrHost+"/lab/a:1"), 0
	err := k.Try(t.Context(), ref, func(c *cri.Credential) error {
		if c != nil && strings.Contains(c.Password, "topsecret") {
			seen++
		}
		return &cri.Error{Reason: cri.ReasonUnauthorized, Noun: "registry", Err: errors.New("401")}
	})
	if err == nil || seen != 3 {
		t.Fatalf("%v after %d credentials: want 3, else nothing is held here", err, seen)
	}
	good := 0
	if err := k.Try(t.Context(), ref, func(*cri.Credential) error { good++; return nil }); err != nil || good != 1 {
		t.Fatalf("%v after %d tries", err, good)
	}
	for name, v := range map[string]any{
		"error": err, "keychain": k, "provider": provider, "ECR": ecr, "secret": file,
		"in a struct": struct{ K, P, E, S any }{k, provider, ecr, file}, "as sources": []Source{file, provider, ecr},
		"within": struct {
			k *Keychain
			p *Plugin
		}{k, provider},
	} {
		shown, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			shown = append(shown, fmt.Sprintf(verb, v)...)
		}
		slog.New(slog.NewJSONHandler(&log, nil)).Info("shown", "value", v)
		logger.Info("shown", "value", v)
		shows(t, name, string(shown))
	}
	shows(t, "log", log.String())
	if !strings.Contains(log.String(), "the auth counts") {
		t.Errorf("the log does not tell of the entry that contradicts itself:\n%s", log.String())
	}
}

func shows(t *testing.T, name, text string) {
	t.Helper()
	for _, secret := range []string{"topsecret", fmt.Sprintf("%x", "topsecret"), base64.StdEncoding.EncodeToString([]byte("u:topsecret"))} {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows a secret: %s", name, text)
		}
	}
}
