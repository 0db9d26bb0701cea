package credentials

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
)

const host = "registry.example:5000"

func find(t *testing.T, file, image string) ([]string, error) {
	t.Helper()
	found, err := NewSecret(file).Find(t.Context(), parse(t, image))
	return users(found), err
}

// Case 24: however a registry is written, the secret is found for its images, and for no other's.
func TestHowARegistryIsWritten(t *testing.T) {
	t.Parallel()
	auth := base64.StdEncoding.EncodeToString([]byte("u:p"))
	file := func(key string) string { return write(t, fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, key, auth)) }
	for _, key := range []string{
		host, "http://" + host, "https://" + host, "https://" + host + "/", "https://" + host + "/v1/", "https://" + host + "/v2/", "https://" + host + "/v2",
		host + "/lab", host + "/lab/", host + "/lab/a", strings.ToUpper(host), "https://" + strings.ToUpper(host) + "/v1/", "*.example:5000", "r*y.example:5000", host + "/v1/lab",
	} {
		if found, err := find(t, file(key), host+"/lab/a:1"); err != nil || len(found) != 1 {
			t.Errorf("%s: found %v, %v", key, found, err)
		}
	}
	for _, key := range []string{
		"registry.example", "registry.example:5001", host + "/la", host + "/lab/a2", host + "/lab/a/b", "*:5000", "*.*.example:5000", "example:5000", "", "://", "other.example",
	} {
		if found, err := find(t, file(key), host+"/lab/a:1"); err != nil || len(found) != 0 {
			t.Errorf("%s: found %v, %v", key, found, err)
		}
	}
	for _, key := range []string{"https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"} {
		for _, image := range []string{"busybox", "docker.io/lab/a"} {
			if found, err := find(t, file(key), image); err != nil || len(found) != 1 {
				t.Errorf("%s for %s: found %v, %v", key, image, found, err)
			}
		}
	}
}

func TestTheMostSpecificComesFirst(t *testing.T) {
	t.Parallel()
	entry := func(user string) map[string]string { return map[string]string{"username": user, "password": "p"} }
	text, err := json.Marshal(map[string]any{"auths": map[string]any{
		host: entry("host"), host + "/lab": entry("lab"), host + "/lab/a": entry("a"), "*.example:5000": entry("glob"), host + "/other": entry("other"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := find(t, write(t, string(text)), host+"/lab/a:1")
	if d := cmp.Diff([]string{"a:p", "lab:p", "host:p", "glob:p"}, found); err != nil || d != "" {
		t.Errorf("%v:\n%s", err, d)
	}
}

// Cases 23 and 29: what an entry may look like.
func TestEntries(t *testing.T) {
	t.Parallel()
	key := "{\n  \"type\": \"service_account\"\n}\n"
	b64 := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		entry string
		want  string // empty: unusable
	}{
		"colon in the password":   {`{"auth": "cm9ib3Qkd2FybTpwYTpzcz13OnJk"}`, "robot$warm:pa:ss=w:rd"},
		"several lines":           {fmt.Sprintf(`{"auth": %q}`, b64([]byte("_json_key:"+key))), "_json_key:" + key},
		"without padding":         {fmt.Sprintf(`{"auth": %q}`, strings.TrimRight(b64([]byte("user:pw12")), "=")), "user:pw12"},
		"broken into lines":       {fmt.Sprintf(`{"auth": %q}`, b64([]byte("user:pw"))[:4]+"\n"+b64([]byte("user:pw"))[4:]), "user:pw"},
		"plain":                   {`{"username": "plainuser", "password": "plain-pw"}`, "plainuser:plain-pw"},
		"both, and they agree":    {fmt.Sprintf(`{"auth": %q, "username": "user", "password": "pw"}`, b64([]byte("user:pw"))), "user:pw"},
		"an empty password":       {fmt.Sprintf(`{"auth": %q}`, b64([]byte("user:"))), "user:"},
		"no colon":                {fmt.Sprintf(`{"auth": %q}`, b64([]byte("topsecret"))), ""},
		"no base64":               {`{"auth": "topsecret!"}`, ""},
		"nobody":                  {fmt.Sprintf(`{"auth": %q}`, b64([]byte(":topsecret"))), ""},
		"identity token":          {`{"identitytoken": "topsecret"}`, ""},
		"token and user":          {fmt.Sprintf(`{"auth": %q, "identitytoken": "topsecret"}`, b64([]byte("00000000-0000:"))), ""},
		"nothing":                 {`{}`, ""},
		"password without a user": {`{"password": "topsecret"}`, ""},
	} {
		for form, text := range map[string]string{
			"dockerconfigjson": fmt.Sprintf(`{"auths": {%q: %s}}`, host, c.entry), "dockercfg": fmt.Sprintf(`{%q: %s}`, host, c.entry),
			"with a byte order mark": "\xef\xbb\xbf" + fmt.Sprintf(`{"auths": {%q: %s}}`, host, c.entry),
		} {
			found, err := find(t, write(t, text), host+"/lab/a:1")
			if want := c.want != ""; want != (err == nil) || want != (len(found) == 1) || want && found[0] != c.want {
				t.Errorf("%s, %s: found %q, %v; want %q", name, form, found, err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "topsecret") || strings.Contains(err.Error(), "dG9w") || !strings.Contains(err.Error(), "registry.example")) {
				t.Errorf("%s, %s: the error shows a secret or names no registry: %v", name, form, err)
			}
		}
	}
}

// Where auth and username contradict each other auth counts, and it is told.
func TestAnEntryThatContradictsItself(t *testing.T) {
	t.Parallel()
	auth := base64.StdEncoding.EncodeToString([]byte("user:pw"))
	for _, entry := range []string{`"username": "other"`, `"password": "topsecret"`, `"username": "other", "password": "topsecret"`} {
		found, err := find(t, write(t, fmt.Sprintf(`{"auths": {%q: {"auth": %q, %s}}}`, host, auth, entry)), host+"/lab/a:1")
		if d := cmp.Diff([]string{"user:pw"}, found); d != "" {
			t.Errorf("%s: %s", entry, d)
		}
		if err == nil || !strings.Contains(err.Error(), "the auth counts") || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: told %v", entry, err)
		}
	}
}

// One registry in several spellings: all are found, and always in the same order.
func TestTheOrderIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	file := write(t, `{"auths": {"r.example": {"username": "a", "password": "1"}, "https://r.example/v1/": {"username": "b", "password": "2"},
		"http://r.example": {"username": "c", "password": "3"}, "R.example/": {"username": "d", "password": "4"}}}`)
	for range 50 {
		found, err := find(t, file, "r.example/x:1")
		if d := cmp.Diff([]string{"d:4", "c:3", "b:2", "a:1"}, found); err != nil || d != "" {
			t.Fatalf("%v:\n%s", err, d)
		}
	}
}

// The kubelet changes a mounted secret by turning the link ..data to another folder.
func TestAMountedSecretThatIsChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"one", "two"} {
		folder := filepath.Join(dir, ".."+version)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"auths": {"r.example": {"username": "u", "password": %q}}}`, version)
		if err := os.WriteFile(filepath.Join(folder, ".dockerconfigjson"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, ".dockerconfigjson")
	if err := os.Symlink("..data/.dockerconfigjson", file); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"one", "two"} {
		next := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(".."+version, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if found, err := find(t, file, "r.example/a:1"); err != nil || len(found) != 1 || found[0] != "u:"+version {
			t.Errorf("found %v, %v, want %s", found, err, version)
		}
	}
}

// A helper that cannot be run is noted for the images that it is for, and for no other.
func TestCredentialHelpersAreNotRun(t *testing.T) {
	t.Parallel()
	file := write(t, `{"auths": {"r.example": {"username": "u", "password": "p"}}, "credHelpers": {"other.example": "nope"}, "credsStore": "desktop"}`)
	if found, err := find(t, file, "r.example/a:1"); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
	if found, err := find(t, file, "other.example/a:1"); err == nil || len(found) != 0 || !strings.Contains(err.Error(), "credential helper") {
		t.Errorf("found %v, %v", found, err)
	}
	if found, err := find(t, file, "third.example/a:1"); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
	stored := write(t, `{"auths": {"r.example": {}}, "credsStore": "desktop"}`)
	if found, err := find(t, stored, "r.example/a:1"); err == nil || len(found) != 0 || !strings.Contains(err.Error(), "credential store") {
		t.Errorf("of a store: found %v, %v", found, err)
	}
	if found, err := find(t, stored, "other.example/a:1"); err != nil || len(found) != 0 {
		t.Errorf("of a store, for another registry: found %v, %v", found, err)
	}
}

// A file that cannot be used is told, without what is in it; one that changes is in force at once.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n", "topsecret", `["topsecret"]`, `{"auths": "topsecret"}`, `{"auths": {"r.example": "topsecret"}}`, `{"auths": {"r.example": {"auth": 12345}}}`, strings.Repeat("x", maxSecret+1)} {
		found, err := find(t, write(t, text), "r.example/a:1")
		if err == nil || len(found) != 0 || strings.Contains(err.Error(), "topsecret") || strings.Contains(err.Error(), "12345") {
			t.Errorf("%.40q: found %v, %v", text, found, err)
		}
	}
	file := write(t, `{"auths": {"r.example": {"username": "u", "password": "one"}}}`)
	for _, password := range []string{"one", "two"} {
		text := fmt.Sprintf(`{"auths": {"r.example": {"username": "u", "password": %q}}}`, password)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := find(t, file, "r.example/a:1"); err != nil || found[0] != "u:"+password {
			t.Errorf("found %v, %v", found, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, file, "r.example/a:1"); err == nil {
		t.Error("a file that is gone is no error")
	}
	if NewSecret(file).Refused(parse(t, "a")) {
		t.Error("a file is read again though it cannot have changed")
	}
}

func FuzzDockerConfig(f *testing.F) {
	for _, s := range []string{
		`{"auths": {"r.example": {"auth": "dTpw"}}}`, `{"r.example": {"username": "u", "password": "p"}}`, `{"credHelpers": {"a": "b"}}`, `{"auths": null}`, "\xef\xbb\xbf{}", "[", `{"auths": {"https://[::1]:5/v1/": {}}}`,
	} {
		f.Add([]byte(s))
	}
	ref := parse(f, "r.example/lab/a:1")
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseDockerConfig(data)
		if err != nil && len(entries) > 0 {
			t.Errorf("both %d entries and %v", len(entries), err)
		}
		for _, e := range matching(entries, ref) {
			if e.unusable == "" && e.credential.Username == "" {
				t.Error("a credential of nobody")
			}
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"r.example", "https://*.example/v1/", "[r].example", "r.example:443/lab", "%zz", "r.example/lab/../x"} {
		f.Add(s, "r.example/lab/a:1")
	}
	f.Fuzz(func(t *testing.T, key, image string) {
		p, ok := parsePattern(key)
		ref, err := cri.ParseReference(image)
		if !ok || err != nil {
			return
		}
		if p.matches(ref) && strings.Count(p.host, ".") != strings.Count(strings.Split(ref.Host(), ":")[0], ".") {
			t.Errorf("%q is for %s, whose host has another number of labels", key, image)
		}
	})
}
