package credentials

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

const ecrHost = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"

// plugin is a folder with a provider, a shell script, and the kubelet's file for it.
type plugin struct{ dir, config string }

// newProvider writes a provider that notes each call and then runs the script.
func newProvider(t *testing.T, script string) plugin {
	t.Helper()
	p := plugin{dir: t.TempDir()}
	p.config = filepath.Join(p.dir, "config.yaml")
	text := "#!/bin/sh\necho call >> " + p.dir + "/calls\ncat > " + p.dir + "/question\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(p.dir, "provider"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	p.configure(t, "{name: provider, matchImages: ['*.dkr.ecr.*.amazonaws.com'], defaultCacheDuration: 12h, apiVersion: "+pluginAPIVersion+
		", args: [get], env: [{name: COLOR, value: blue}]}")
	return p
}

func (p plugin) configure(t *testing.T, provider string) {
	t.Helper()
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n  - " + provider + "\n"
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// load reads the file as the agent does.
func (p plugin) load(t *testing.T, log *bytes.Buffer) []Source {
	t.Helper()
	sources, err := NewPlugins(p.config, p.dir, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func (p plugin) one(t *testing.T) *Plugin {
	t.Helper()
	var log bytes.Buffer
	sources := p.load(t, &log)
	if len(sources) != 1 {
		t.Fatalf("%d providers: %s", len(sources), log.String())
	}
	return sources[0].(*Plugin)
}

func (p plugin) calls(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "call")
}

// answer is a script that answers; fields come on top of what every answer has.
func answer(fields string) string {
	return fmt.Sprintf(`echo '{"apiVersion": %q, "kind": "CredentialProviderResponse", %s}'`, pluginAPIVersion, fields)
}

const auth = `"auth": {"*.dkr.ecr.*.amazonaws.com": {"username": "AWS", "password": "topsecret"}}`

func TestAProviderIsAskedAsTheKubeletAsks(t *testing.T) {
	t.Parallel()
	p := newProvider(t, `[ "$1" = get ] && [ "$COLOR" = blue ] && `+answer(`"cacheKeyType": "Registry", `+auth))
	found, err := p.one(t).Find(t.Context(), parse(t, ecrHost+"/lab/a:1"))
	if err != nil || len(found) != 1 || found[0] != (cri.Credential{Username: "AWS", Password: "topsecret"}) {
		t.Fatalf("found %v, %v", users(found), err)
	}
	question, err := os.ReadFile(filepath.Join(p.dir, "question"))
	want := `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"` + ecrHost + `/lab/a","kind":"CredentialProviderRequest"}` // without the tag, as the kubelet
	if err != nil || string(question) != want {
		t.Errorf("question %s, %v; want %s", question, err, want)
	}
	if found, err := p.one(t).Find(t.Context(), parse(t, "registry.example/a:1")); err != nil || len(found) != 0 || p.calls(t) != 1 {
		t.Errorf("for an image that it is not for: %v, %v, %d calls", users(found), err, p.calls(t))
	}
}

// Case 30 a: how long an answer counts, and for what.
func TestHowLongAnAnswerIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields string
		images []string
		want   int
	}{
		"for as long as it says":            {`"cacheKeyType": "Registry", "cacheDuration": "12h"`, []string{"a", "a", "b"}, 1},
		"for an image":                      {`"cacheKeyType": "Image", "cacheDuration": "12h0m0s"`, []string{"a", "a", "b"}, 2},
		"for all":                           {`"cacheKeyType": "Global"`, []string{"a", "b", "a"}, 1},
		"says nothing":                      {`"cacheKeyType": "Registry"`, []string{"a", "a", "a"}, 1},
		"null":                              {`"cacheKeyType": "Registry", "cacheDuration": null`, []string{"a", "a", "a"}, 1},
		"not at all":                        {`"cacheKeyType": "Registry", "cacheDuration": "0s"`, []string{"a", "a", "a"}, 3},
		"less than nothing":                 {`"cacheKeyType": "Registry", "cacheDuration": "-5m"`, []string{"a", "a", "a"}, 3},
		"hardly, as cloud-provider-aws 348": {`"cacheKeyType": "Registry", "cacheDuration": "21.6us"`, []string{"a", "a", "a"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, answer(c.fields+", "+auth))
			source := p.one(t)
			for _, image := range c.images {
				if found, err := source.Find(t.Context(), parse(t, ecrHost+"/lab/"+image)); err != nil || len(found) != 1 {
					t.Fatalf("%v, %v", users(found), err)
				}
			}
			if n := p.calls(t); n != c.want {
				t.Errorf("%d calls, want %d", n, c.want)
			}
		})
	}
}

// Case 30 b and d: what a provider may do wrong; none of it is kept, and nothing that it says is shown.
func TestAProviderThatFails(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"exit 1":            `echo topsecret >&2; exit 1`,
		"nothing":           ``,
		"garbage":           `echo topsecret`,
		"another version":   strings.ReplaceAll(answer(`"cacheKeyType": "Registry", `+auth), "/v1", "/v1beta1"),
		"another kind":      strings.ReplaceAll(answer(`"cacheKeyType": "Registry", `+auth), "Response", "Request"),
		"no cache key type": answer(auth),
		"odd cache key":     answer(`"cacheKeyType": "topsecret", ` + auth),
		"odd duration":      answer(`"cacheKeyType": "Registry", "cacheDuration": "topsecret", ` + auth),
		"odd auth":          answer(`"cacheKeyType": "Registry", "auth": "topsecret"`),
		"too much":          `head -c 20000000 /dev/zero | tr '\0' x`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, script)
			source := p.one(t)
			for range 2 {
				clear(source.failures) // how soon it is asked again, TestAProviderThatFailsIsAskedAgain holds
				found, err := source.Find(t.Context(), parse(t, ecrHost+"/lab/a:1"))
				if err == nil || len(found) != 0 || strings.Contains(err.Error(), "topsecret") {
					t.Errorf("%v, %v", users(found), err)
				}
			}
			if n := p.calls(t); n != 2 {
				t.Errorf("%d calls, want one for each question", n)
			}
		})
	}
	p := newProvider(t, answer(`"cacheKeyType": "Registry", "auth": {}`))
	if found, err := p.one(t).Find(t.Context(), parse(t, ecrHost+"/lab/a:1")); err != nil || len(found) != 0 {
		t.Errorf("an answer without credentials: %v, %v", users(found), err)
	}
}

// Case 30 b: a failure is no answer. The next try asks again, after a pause that grows, and a success ends it.
func TestAProviderThatFailsIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(t, `[ -e $(dirname $0)/works ] || exit 1; `+answer(`"cacheKeyType": "Registry", "cacheDuration": "0s", `+auth))
		source, ref := p.one(t), parse(t, ecrHost+"/lab/a:1")
		find := func(calls int, works bool) {
			t.Helper()
			if found, err := source.Find(t.Context(), ref); (err == nil) != works || (len(found) == 1) != works || p.calls(t) != calls {
				t.Errorf("%v, %v after %d calls, want %d", users(found), err, p.calls(t), calls)
			}
		}
		calls := 0
		for pause := firstPause; pause <= 2*longestPause; pause *= 2 {
			calls++
			find(calls, false)
			time.Sleep(min(pause, longestPause) - time.Millisecond)
			find(calls, false) // not in a hot loop
			time.Sleep(time.Millisecond)
		}
		if _, err := source.Find(t.Context(), parse(t, ecrHost+"/lab/b:1")); err == nil || p.calls(t) != calls+1 {
			t.Errorf("another image: %v after %d calls, want a question of its own", err, p.calls(t))
		}
		if err := os.WriteFile(filepath.Join(p.dir, "works"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		find(calls+2, true)
		if err := os.Remove(filepath.Join(p.dir, "works")); err != nil {
			t.Fatal(err)
		}
		find(calls+3, false)
		time.Sleep(firstPause)
		find(calls+4, false)
	})
}

// Case 30 a, through the keychain: that an answer was good is no reason to keep it for longer than the provider says.
func TestAGoodAnswerIsKeptNoLonger(t *testing.T) {
	t.Parallel()
	for duration, want := range map[string]int{"0s": 10, "21.6us": 10, "-1h": 10, "12h": 1} {
		t.Run(duration, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, answer(fmt.Sprintf(`"cacheKeyType": "Registry", "cacheDuration": %q, `, duration)+auth))
			k := keychain(&bytes.Buffer{}, p.one(t))
			r := &registry{takes: map[string]bool{"AWS": true}}
			for range 10 {
				if err := k.Try(t.Context(), parse(t, ecrHost+"/lab/a:1"), r.try); err != nil {
					t.Fatal(err)
				}
			}
			if n := p.calls(t); n != want || len(r.asked) != 10 {
				t.Errorf("%d calls, want %d, for %d tries", n, want, len(r.asked))
			}
		})
	}
}

// Case 30 c: one that hangs is killed, with its children, when its time is up.
func TestAProviderThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	p := newProvider(t, `sleep 1000 & echo $! > `+"$(dirname $0)/child\nwait")
	source := p.one(t)
	if source.timeout != time.Minute {
		t.Errorf("it has %v, the kubelet gives a minute", source.timeout)
	}
	source.timeout = time.Second
	begun := time.Now()
	found, err := source.Find(t.Context(), parse(t, ecrHost+"/lab/a:1"))
	if err == nil || len(found) != 0 || !strings.Contains(err.Error(), "did not answer within 1s") {
		t.Errorf("%v, %v", users(found), err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	p.childEnds(t)
}

// One that answers and leaves a child behind, which holds its output: the answer counts, and the child is killed.
func TestAProviderThatLeavesAChild(t *testing.T) {
	t.Parallel()
	for name, redirect := range map[string]string{"with its output": "", "silent": " > /dev/null 2>&1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, "sleep 1000"+redirect+" & echo $! > $(dirname $0)/child\n"+answer(`"cacheKeyType": "Registry", `+auth))
			if found, err := p.one(t).Find(t.Context(), parse(t, ecrHost+"/lab/a:1")); err != nil || len(found) != 1 {
				t.Errorf("%v, %v", users(found), err)
			}
			p.childEnds(t)
		})
	}
}

// Case 30 c: an image whose question hangs holds up no other; those who ask for the same image wait for one answer.
func TestQuestionsAtTheSameTime(t *testing.T) {
	t.Parallel()
	p := newProvider(t, `case "$(cat $(dirname $0)/question)" in *slow*) echo > $(dirname $0)/begun; read line < $(dirname $0)/gate;; esac; `+
		answer(`"cacheKeyType": "Image", `+auth))
	gate := filepath.Join(p.dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	source := p.one(t)
	results := make(chan error, 4)
	for range cap(results) {
		go func() {
			found, err := source.Find(t.Context(), parse(t, ecrHost+"/lab/slow:1"))
			if err == nil && len(found) != 1 {
				err = fmt.Errorf("found %v", users(found))
			}
			results <- err
		}()
	}
	until(t, "the slow one has begun", func() bool {
		_, err := os.Stat(filepath.Join(p.dir, "begun"))
		return err == nil
	})
	if found, err := source.Find(t.Context(), parse(t, ecrHost+"/lab/fast:1")); err != nil || len(found) != 1 {
		t.Errorf("another image: %v, %v", users(found), err)
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := p.calls(t); n != 2 {
		t.Errorf("%d calls, want one for each image", n)
	}
}

// A question that was given up is no failure of the provider: the next is asked at once.
func TestAQuestionThatWasGivenUp(t *testing.T) {
	t.Parallel()
	p := newProvider(t, answer(`"cacheKeyType": "Registry", `+auth))
	source := p.one(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := source.Find(ctx, parse(t, ecrHost+"/lab/a:1")); err == nil || len(found) != 0 {
		t.Errorf("%v, %v", users(found), err)
	}
	if found, err := source.Find(t.Context(), parse(t, ecrHost+"/lab/a:1")); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", users(found), err)
	}
}

// childEnds waits until the child whose number the script wrote is gone.
func (p plugin) childEnds(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "its child has ended", func() bool { return gone(t, child) })
}

// until waits for an event.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// gone is true of a process that has ended, also where nobody has asked how.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// Case 30 e: what was refused is dropped, once.
func TestARefusedAnswerIsDropped(t *testing.T) {
	t.Parallel()
	p := newProvider(t, answer(`"cacheKeyType": "Registry", `+auth))
	source, ref := p.one(t), parse(t, ecrHost+"/lab/a:1")
	for range 2 {
		if _, err := source.Find(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	if !source.Refused(ref) || source.Refused(ref) {
		t.Error("want something to be dropped once, and then nothing")
	}
	if _, err := source.Find(t.Context(), ref); err != nil || p.calls(t) != 2 {
		t.Errorf("%v, %d calls, want 2", err, p.calls(t))
	}
}

// A provider that cannot be used is left out and told, with the field; the file itself must be right.
func TestTheFileOfProviders(t *testing.T) {
	t.Parallel()
	p := newProvider(t, "")
	if err := os.WriteFile(filepath.Join(p.dir, "text"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const rest = "matchImages: [a.example], defaultCacheDuration: 1h, apiVersion: " + pluginAPIVersion
	for provider, says := range map[string]string{
		"{name: ../provider, " + rest + "}":                                                 "plain file name",
		"{name: '', " + rest + "}":                                                          "plain file name",
		"{name: 'a b', " + rest + "}":                                                       "plain file name",
		"{name: missing, " + rest + "}":                                                     "no such file",
		"{name: text, " + rest + "}":                                                        "is no program",
		"{name: provider, " + strings.ReplaceAll(rest, "/v1", "/v1alpha1") + "}":            "v1alpha1",
		"{name: provider, " + strings.ReplaceAll(rest, "1h", "soon") + "}":                  "defaultCacheDuration",
		"{name: provider, " + strings.ReplaceAll(rest, "[a.example]", "[]") + "}":           "matchImages",
		"{name: provider, " + strings.ReplaceAll(rest, "[a.example]", "['://']") + "}":      "matchImages",
		"{name: provider, tokenAttributes: {serviceAccountTokenAudience: a}, " + rest + "}": "tokenAttributes",
		"{name: provider, env: [{name: 'A=B', value: c}], " + rest + "}":                    "A=B",
	} {
		p.configure(t, provider)
		var log bytes.Buffer
		if sources := p.load(t, &log); len(sources) != 0 || !strings.Contains(log.String(), says) {
			t.Errorf("%s: %d providers, and %q is not said:\n%s", provider, len(sources), says, log.String())
		}
	}
	p.configure(t, "{name: provider, "+rest+"}\n  - {name: provider, "+rest+"}")
	var log bytes.Buffer
	if sources := p.load(t, &log); len(sources) != 1 || !strings.Contains(log.String(), "given twice") {
		t.Errorf("one that is given twice: %d providers:\n%s", len(sources), log.String())
	}
	for text, says := range map[string]string{
		"": "is empty", "[": "yaml", "apiVersion: v2\nkind: CredentialProviderConfig\n": `"v2"`,
		"apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviderz: []\n": "providerz",
	} {
		if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := NewPlugins(p.config, p.dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), p.config) {
			t.Errorf("%q: %v, want %q and the file's name in it", text, err, says)
		}
	}
	if _, err := NewPlugins("/nonexistent", p.dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file that is not there is no error")
	}
}

// Time passes: an answer that is too old is not used.
func TestAnAnswerGrowsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ref := parse(t, ecrHost+"/lab/a:1")
		p := &Plugin{cache: map[string]cachedAnswer{keyGlobal: {entries: []entry{{}}, until: time.Now().Add(time.Hour)}}}
		if _, ok := p.kept(ref); !ok {
			t.Error("a fresh one is not used")
		}
		time.Sleep(time.Hour)
		if _, ok := p.kept(ref); ok {
			t.Error("an old one is used")
		}
	})
}

func FuzzPluginResponse(f *testing.F) {
	for _, s := range []string{
		`{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse", "cacheKeyType": "Image", "cacheDuration": "1h", "auth": {"a.example": {"username": "u", "password": "p"}}}`,
		`{"auth": {"": {}}}`, `{"cacheDuration": 5}`, "null",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		a, err := parseAnswer(out)
		if err != nil {
			return
		}
		if _, keep, err := a.read(time.Hour); err == nil && a.CacheDuration == nil && keep != time.Hour {
			t.Errorf("kept for %v", keep)
		}
	})
}
