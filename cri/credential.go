package cri

import (
	"log/slog"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Credential is what a registry wants to know who asks. It never shows its secret: not in a log, not as JSON, not by %v.
type Credential struct {
	// Username and Password are for basic authentication and for tokens.
	Username string `json:"-"`
	Password string `json:"-"`
}

const hidden = "(hidden)"

// String implements fmt.Stringer.
func (Credential) String() string { return hidden }

// GoString implements fmt.GoStringer, for %#v.
func (Credential) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (Credential) LogValue() slog.Value { return slog.StringValue(hidden) }

// auth is the credential as CRI has it. The server address is that of the registry itself, as a full URL: without one
// containerd would give the credential to mirrors too, and one without a scheme makes it drop the credential without a
// word (internal/cri/server/images/image_pull.go, ParseAuth).
func (c *Credential) auth(ref Reference) *runtimeapi.AuthConfig {
	if c == nil {
		return nil
	}
	return &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password, ServerAddress: "https://" + contacted(ref)}
}

// forHost gives the credential to the registry of a reference, and nothing to its mirrors: what is meant for the one is
// not the other's to know.
func (c *Credential) forHost(ref Reference) func(host string) (username, password string, err error) {
	return func(host string) (string, string, error) {
		if c == nil || host != contacted(ref) {
			return "", "", nil
		}
		return c.Username, c.Password, nil
	}
}

// contacted is the host that is asked for a reference: Docker Hub's registry has another name than its images.
func contacted(ref Reference) string {
	host, err := docker.DefaultHost(ref.Host())
	if err != nil {
		return ref.Host()
	}
	return host
}
