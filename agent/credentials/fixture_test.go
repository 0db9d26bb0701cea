package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
)

func parse(t testing.TB, s string) cri.Reference {
	t.Helper()
	ref, err := cri.ParseReference(s)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ".dockerconfigjson")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// source is a Source of fixed answers.
type source struct {
	name    string
	answers [][]cri.Credential // one for each call; the last stays
	err     error
	finds   int
	again   bool
}

func (s *source) Name() string { return s.name }

func (s *source) Find(context.Context, cri.Reference) ([]cri.Credential, error) {
	s.finds++
	if len(s.answers) == 0 {
		return nil, s.err
	}
	return s.answers[min(s.finds, len(s.answers))-1], s.err
}

func (s *source) Refused(cri.Reference) bool { return s.again }

func cred(name string) cri.Credential {
	return cri.Credential{Username: name, Password: "secret of " + name}
}

// registry takes some users; "" stands for nobody.
type registry struct {
	takes map[string]bool
	asked []string
	// fails is an error of the registry that has nothing to do with who asks.
	fails error
}

func (r *registry) try(c *cri.Credential) error {
	user := ""
	if c != nil {
		user = c.Username
	}
	r.asked = append(r.asked, user)
	switch {
	case r.fails != nil:
		return r.fails
	case !r.takes[user]:
		return &cri.Error{Reason: cri.ReasonUnauthorized, Noun: "registry", Err: errors.New("401")}
	default:
		return nil
	}
}

func keychain(log *bytes.Buffer, sources ...Source) *Keychain {
	return NewKeychain(slog.New(slog.NewTextHandler(log, nil)), sources...)
}

func users(found []cri.Credential) []string {
	out := []string{}
	for _, c := range found {
		out = append(out, fmt.Sprintf("%s:%s", c.Username, c.Password))
	}
	return out
}
