package credentials

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awslabs/amazon-ecr-credential-helper/ecr-login/api"
)

// aws stands in for AWS.
type aws struct {
	asked []string
	err   error
	hangs bool
}

func (a *aws) GetCredentials(ctx context.Context, serverURL string) (*api.Auth, error) {
	a.asked = append(a.asked, serverURL)
	if a.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	return &api.Auth{Username: "AWS", Password: "topsecret of " + serverURL}, nil
}

// newAWS gives an ECR that asks a; env are pairs of name and value.
func (a *aws) source(t *testing.T, env ...string) *ECR {
	t.Helper()
	e := NewECR(func(name string) string {
		for i := 0; i < len(env); i += 2 {
			if env[i] == name {
				return env[i+1]
			}
		}
		return ""
	})
	e.client = func(_ context.Context, region string, fips bool) (tokens, error) {
		a.asked = append(a.asked, region)
		if fips {
			a.asked = append(a.asked, "fips")
		}
		return a, nil
	}
	return e
}

func TestECR(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		ecrHost: "eu-west-1 " + ecrHost,
		"111122223333.dkr.ecr-fips.us-gov-west-1.amazonaws.com": "us-gov-west-1 fips 111122223333.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
		"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn":      "cn-north-1 111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn",
		"111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov":         "us-iso-east-1 111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov",
		"111122223333.dkr.ecr.us-isob-east-1.sc2s.sgov.gov":     "us-isob-east-1 111122223333.dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
		"111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu":      "eusc-de-east-1 111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu",
		"111122223333.dkr-ecr.us-west-2.on.aws":                 "us-west-2 111122223333.dkr-ecr.us-west-2.on.aws",
		"public.ecr.aws":                                        "",
		"registry.example":                                      "",
		"ecr.eu-west-1.amazonaws.example":                       "",
	} {
		a := &aws{}
		found, err := a.source(t).Find(t.Context(), parse(t, host+"/lab/a:1"))
		if got := strings.Join(a.asked, " "); err != nil || got != want || len(found) != map[bool]int{true: 1, false: 0}[want != ""] {
			t.Errorf("%s: asked %q, want %q; found %d, %v", host, got, want, len(found), err)
		}
	}
}

// The public registry is told a name only where there is one that was given to this process.
func TestThePublicECR(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ACCESS_KEY_ID"} {
		a := &aws{}
		if found, err := a.source(t, name, "x").Find(t.Context(), parse(t, "public.ecr.aws/lab/a:1")); err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", name, users(found), err)
		}
	}
}

func TestATokenIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &aws{}
		e, ref := a.source(t), parse(t, ecrHost+"/lab/a:1")
		find := func(want int) {
			t.Helper()
			_, _ = e.Find(t.Context(), ref)
			if n := len(a.asked) / 2; n != want {
				t.Errorf("AWS was asked %d times, want %d", n, want)
			}
		}
		find(1)
		time.Sleep(ecrKeep - time.Second)
		find(1)
		time.Sleep(2 * time.Second)
		find(2)
		if !e.Refused(ref) || e.Refused(ref) {
			t.Error("want a token to be dropped once, and then nothing")
		}
		find(3)
		a.err = errors.New("throttled")
		e.Refused(ref)
		find(4)
		find(4) // not each time, since it may take long
		if _, err := e.Find(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "throttled") {
			t.Errorf("%v", err)
		}
		a.err = nil
		time.Sleep(ecrRetry)
		find(5)
	})
}

// The pause after a failure holds also where the registry refuses what others gave.
func TestARefusalDoesNotEndThePause(t *testing.T) {
	t.Parallel()
	a := &aws{err: errors.New("throttled")}
	e, ref := a.source(t), parse(t, ecrHost+"/lab/a:1")
	for range 3 {
		if _, err := e.Find(t.Context(), ref); err == nil || e.Refused(ref) {
			t.Errorf("%v", err)
		}
	}
	if n := len(a.asked) / 2; n != 1 {
		t.Errorf("AWS was asked %d times, want once", n)
	}
}

// AWS's own client: it keeps no token in a file, and so does not give one again that was refused.
func TestNoTokenIsLeftOnTheDisk(t *testing.T) {
	given := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		given++
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprintf(w, `{"authorizationData": [{"authorizationToken": %q, "expiresAt": %d, "proxyEndpoint": "https://%s"}]}`,
			base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "AWS:token-%d", given)), time.Now().Add(12*time.Hour).Unix(), ecrHost)
	}))
	defer server.Close()
	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, value := range map[string]string{
		"AWS_ECR_CACHE_DIR": home + "/.ecr", "AWS_ECR_DISABLE_CACHE": "", "AWS_ENDPOINT_URL_ECR": server.URL, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_CONFIG_FILE": home + "/none", "AWS_SHARED_CREDENTIALS_FILE": home + "/none",
	} {
		t.Setenv(name, value)
	}
	e, ref := NewECR(os.Getenv), parse(t, ecrHost+"/lab/a:1")
	for _, want := range []string{"AWS:token-1", "AWS:token-2"} {
		found, err := e.Find(t.Context(), ref)
		if err != nil || len(found) != 1 || users(found)[0] != want {
			t.Errorf("%v, %v, want %s", users(found), err, want)
		}
		e.Refused(ref)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Without credentials AWS's library may look for them for long.
func TestTheSearchForATokenEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &aws{hangs: true}
		begun := time.Now()
		_, err := a.source(t).Find(t.Context(), parse(t, ecrHost+"/lab/a:1"))
		if took := time.Since(begun); took != ecrTimeout || err == nil || !strings.Contains(err.Error(), ecrTimeout.String()) {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e := a.source(t)
		if _, err := e.Find(ctx, parse(t, ecrHost+"/lab/a:1")); err == nil || len(e.cache) != 0 {
			t.Errorf("of a question that was given up: %v, %d answers kept", err, len(e.cache))
		}
	})
}
