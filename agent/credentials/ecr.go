package credentials

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/awslabs/amazon-ecr-credential-helper/ecr-login/api"

	"github.com/prewarm-dev/prewarm/cri"
)

const (
	// ecrTimeout bounds the whole way to a token. On a node whose metadata service does not answer a pod (hop limit 1) the
	// search for AWS credentials takes it all.
	ecrTimeout = 15 * time.Second
	// ecrKeep is how long a token is kept: Amazon ECR gives it for 12 hours.
	ecrKeep = 6 * time.Hour
	// ecrRetry is the time until AWS is asked again after it could not be: otherwise each question would take ecrTimeout.
	ecrRetry = 5 * time.Minute
)

// tokens is what we need of the helper's client.
type tokens interface {
	GetCredentials(ctx context.Context, serverURL string) (*api.Auth, error)
}

// ECR asks Amazon ECR itself for a token, with the AWS credentials of this process: Pod Identity, a role for service
// accounts, or the instance's.
type ECR struct {
	// client makes a client for a region; getenv is the environment.
	client func(ctx context.Context, region string, fips bool) (tokens, error)
	getenv func(string) string

	flights flights[ecrAnswer]

	mu    sync.Mutex
	cache map[string]ecrAnswer
}

var _ Source = (*ECR)(nil)

// ecrAnswer is a token, or why there is none, and until when that counts.
type ecrAnswer struct {
	credential cri.Credential
	err        error
	until      time.Time
}

// NewECR asks AWS nothing yet.
func NewECR(getenv func(string) string) *ECR {
	return &ECR{client: newECRClient, getenv: getenv, cache: map[string]ecrAnswer{}}
}

// newECRClient makes AWS's client. Its cache of tokens in a file of the home folder is turned off, for which there is only
// this variable: it would leave secrets on a disk, and give a token again that was refused.
func newECRClient(ctx context.Context, region string, fips bool) (tokens, error) {
	if err := os.Setenv("AWS_ECR_DISABLE_CACHE", "true"); err != nil {
		return nil, err
	}
	if fips {
		return api.DefaultClientFactory{}.NewClientWithFipsEndpoint(ctx, region)
	}
	return api.DefaultClientFactory{}.NewClientFromRegion(ctx, region)
}

// Name implements Source.
func (*ECR) Name() string { return "Amazon ECR" }

// Find implements Source.
func (e *ECR) Find(ctx context.Context, ref cri.Reference) ([]cri.Credential, error) {
	registry, ok := ecrRegistry(ref.Host())
	if !ok {
		return nil, nil
	}
	if registry.Service == api.ServiceECRPublic && !e.hasIdentity() {
		return nil, nil // the public registry wants nobody's name; it only limits the nameless more
	}
	a, err := e.flights.do(ctx, ref.Host(), func(ctx context.Context) (ecrAnswer, error) {
		a, ok := e.kept(ref.Host())
		if !ok {
			a = e.ask(ctx, ref.Host(), registry)
			e.keep(ctx, ref.Host(), a)
		}
		return a, a.err
	})
	if err != nil {
		return nil, err
	}
	return []cri.Credential{a.credential}, nil
}

// ecrRegistry is the registry of a host; false where it is none of Amazon ECR, in whichever partition.
func ecrRegistry(host string) (*api.Registry, bool) {
	registry, err := api.ExtractRegistry(host)
	return registry, err == nil
}

func (e *ECR) kept(host string) (ecrAnswer, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok := e.cache[host]
	return a, ok && time.Now().Before(a.until)
}

// keep keeps an answer, unless it is only that the question was given up.
func (e *ECR) keep(ctx context.Context, host string, a ecrAnswer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() == nil {
		e.cache[host] = a
	}
}

// hasIdentity reports whether this process was given AWS credentials, other than those of the machine.
func (e *ECR) hasIdentity() bool {
	for _, name := range []string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ACCESS_KEY_ID",
	} {
		if e.getenv(name) != "" {
			return true
		}
	}
	return false
}

func (e *ECR) ask(ctx context.Context, host string, registry *api.Registry) ecrAnswer {
	ctx, cancel := context.WithTimeoutCause(ctx, ecrTimeout, fmt.Errorf("no answer within %v", ecrTimeout))
	defer cancel()
	auth, err := e.token(ctx, host, registry)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return ecrAnswer{err: fmt.Errorf("AWS gives no token: %w", err), until: time.Now().Add(ecrRetry)}
	}
	return ecrAnswer{
		credential: cri.Credential{Username: auth.Username, Password: auth.Password}, until: time.Now().Add(ecrKeep),
	}
}

func (e *ECR) token(ctx context.Context, host string, registry *api.Registry) (*api.Auth, error) {
	client, err := e.client(ctx, registry.Region, registry.FIPS)
	if err != nil {
		return nil, err
	}
	return client.GetCredentials(ctx, host)
}

// Refused implements Source.
func (e *ECR) Refused(ref cri.Reference) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok := e.cache[ref.Host()]
	if !ok || a.err != nil {
		return false
	}
	delete(e.cache, ref.Host())
	return true
}
