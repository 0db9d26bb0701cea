package credentials

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/prewarm-dev/prewarm/cri"
)

// maxSecret is the largest file that is read, in bytes: Kubernetes has no larger Secret.
const maxSecret = 1 << 20

// Secret is a file with credentials as docker login writes them: the content of an image pull secret of type
// kubernetes.io/dockerconfigjson, or of the older kubernetes.io/dockercfg. It is read anew each time it is asked, so that a
// secret that changes is in force at once.
type Secret struct{ path string }

var _ Source = Secret{}

// NewSecret reads a mounted secret.
func NewSecret(path string) Secret { return Secret{path: path} }

// Name implements Source.
func (s Secret) Name() string { return "secret " + s.path }

// Refused implements Source: the file says the same until somebody changes it.
func (Secret) Refused(cri.Reference) bool { return false }

// Find implements Source.
func (s Secret) Find(_ context.Context, ref cri.Reference) ([]cri.Credential, error) {
	data, err := readSecret(s.path)
	if err != nil {
		return nil, err
	}
	entries, err := parseDockerConfig(data)
	if err != nil {
		return nil, err
	}
	var found []cri.Credential
	var problems []error
	for _, e := range matching(entries, ref) {
		if e.unusable != "" {
			problems = append(problems, fmt.Errorf("the entry for %s %s", e.pattern.host, e.unusable))
			continue
		}
		found = append(found, e.credential)
	}
	return found, errors.Join(problems...)
}

func readSecret(path string) (_ []byte, err error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(data) > maxSecret {
		err = fmt.Errorf("is larger than %d bytes", maxSecret)
	}
	return data, err
}

// dockerEntry is one registry in the file.
type dockerEntry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
}

// parseDockerConfig reads both forms of the file. Its errors say nothing of what is in it.
func parseDockerConfig(data []byte) ([]entry, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("is empty")
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(data, &top) != nil {
		return nil, errors.New("is no JSON object: make it with kubectl create secret docker-registry")
	}
	auths := map[string]dockerEntry{}
	var entries []entry
	if _, flat := top["auths"]; !flat && top["credHelpers"] == nil && top["credsStore"] == nil {
		if json.Unmarshal(data, &auths) != nil {
			return nil, errors.New("has neither auths nor registries: make it with kubectl create secret docker-registry")
		}
	} else {
		var file struct {
			Auths       map[string]dockerEntry `json:"auths"`
			CredHelpers map[string]string      `json:"credHelpers"`
			CredsStore  string                 `json:"credsStore"`
		}
		if json.Unmarshal(data, &file) != nil {
			return nil, errors.New("has auths of another form than docker login writes")
		}
		auths = file.Auths
		for host := range file.CredHelpers {
			if p, ok := parsePattern(host); ok {
				entries = append(entries, entry{pattern: p, unusable: "names a credential helper, which is not run here: put the credentials themselves into the secret"})
			}
		}
	}
	for key, e := range auths {
		if p, ok := parsePattern(key); ok {
			entries = append(entries, e.entry(p))
		}
	}
	return entries, nil
}

// entry finds the credential. The encoded form counts, where there are both: it is what docker login writes.
func (e dockerEntry) entry(p pattern) entry {
	out := entry{pattern: p, credential: cri.Credential{Username: e.Username, Password: e.Password}}
	switch {
	case e.Auth != "":
		username, password, ok := decodeAuth(e.Auth)
		out.credential = cri.Credential{Username: username, Password: password}
		if !ok {
			out.credential, out.unusable = cri.Credential{}, "has an auth that is not the base64 of username:password"
		}
	case e.Username != "" && e.Password != "":
	case e.IdentityToken != "":
		out.unusable = "has an identity token, which is not supported: use a username and a password"
	default:
		out.unusable = "is empty"
	}
	return out
}

// decodeAuth decodes base64, with or without padding, of username:password; the password may have colons and lines.
func decodeAuth(auth string) (username, password string, ok bool) {
	compact := strings.TrimRight(strings.Join(strings.Fields(auth), ""), "=")
	decoded, err := base64.RawStdEncoding.DecodeString(compact)
	if err != nil {
		return "", "", false
	}
	username, password, ok = strings.Cut(strings.TrimRight(string(decoded), "\x00"), ":")
	return username, password, ok && username != ""
}
