package credentials

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// Find implements Source. What is odd in an entry that can be used is told too.
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
		if problem := e.unusable + e.odd; problem != "" {
			problems = append(problems, fmt.Errorf("the entry for %s %s", e.pattern.host, problem))
		}
		if e.unusable == "" {
			found = append(found, e.credential)
		}
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
	store := false
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
		auths, store = file.Auths, file.CredsStore != ""
		for _, host := range slices.Sorted(maps.Keys(file.CredHelpers)) {
			if p, ok := parsePattern(host); ok {
				entries = append(entries, entry{pattern: p, unusable: "names a credential helper, which is not run here: put the credentials themselves into the secret"})
			}
		}
	}
	// In the order of their names: a registry that is written in two ways is two entries, and which is first must not change.
	for _, key := range slices.Sorted(maps.Keys(auths)) {
		if p, ok := parsePattern(key); ok {
			entries = append(entries, auths[key].entry(p, store))
		}
	}
	return entries, nil
}

// entry finds the credential. The encoded form counts, where there are both: it is what docker login writes. store says
// that the file names a credential store, which is where the credentials of an empty entry are.
func (e dockerEntry) entry(p pattern, store bool) entry {
	out := entry{pattern: p}
	username, password := e.Username, e.Password
	if e.Auth != "" {
		var ok bool
		if username, password, ok = decodeAuth(e.Auth); !ok {
			out.unusable = "has an auth that is not the base64 of username:password"
			return out
		}
	}
	switch {
	case e.IdentityToken != "" && password == "": // az acr login and others write an auth without a password beside it
		out.unusable = "has an identity token, which is not supported: use a username and a password"
	case e.Auth == "" && (username == "" || password == "") && store:
		out.unusable = "is empty: a credential store has the credentials, which is not asked here: put them into the secret"
	case e.Auth == "" && (username == "" || password == ""):
		out.unusable = "is empty"
	default:
		out.credential = cri.Credential{Username: username, Password: password}
		if e.Username != "" && e.Username != username || e.Password != "" && e.Password != password {
			out.odd = "has another username or password than its auth; the auth counts"
		}
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
