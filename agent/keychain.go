package agent

import (
	"context"

	"github.com/prewarm-dev/prewarm/cri"
)

// Keychain knows what registries want to know of who asks.
type Keychain interface {
	// Try calls try with one credential after the other, the likeliest first and nil, for none, last, as long as the
	// registry refuses them (cri.ReasonUnauthorized). It gives the error of the last call.
	Try(ctx context.Context, ref cri.Reference, try func(*cri.Credential) error) error
}

// Anonymous is the Keychain of those who have no credentials.
type Anonymous struct{}

var _ Keychain = Anonymous{}

// Try implements Keychain.
func (Anonymous) Try(_ context.Context, _ cri.Reference, try func(*cri.Credential) error) error {
	return try(nil)
}
