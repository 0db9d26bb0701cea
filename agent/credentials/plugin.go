package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

const (
	// pluginTimeout is how long a provider may take, as for the kubelet (pkg/credentialprovider/plugin).
	pluginTimeout = time.Minute
	// pluginGrace is how long its output is waited for after it has been killed: a child may hold the pipe.
	pluginGrace = time.Second
	// shortestKeep is how long an answer must count to be kept at all: some providers say microseconds and mean never.
	shortestKeep = time.Second
	// firstPause and longestPause are how long a provider that failed for an image is not asked for it again; the pause
	// doubles from failure to failure. It is shorter than the agent's own, so that each of its tries is a new question.
	firstPause, longestPause = time.Second, time.Minute
	// maxAnswer is how much a provider may say, in bytes.
	maxAnswer = 1 << 20
)

// Plugin is one of the kubelet's credential providers: a program that is asked for each image, and whose answers are kept
// for as long as it says.
type Plugin struct {
	name, path string
	args, env  []string
	images     []pattern
	// keep is how long an answer is kept that says nothing of it, and timeout how long one is waited for.
	keep, timeout time.Duration

	// flights are the questions being asked. Their key is the image, as for the kubelet: before the answer nobody knows
	// for what else it will count, and an image whose question hangs must not hold up others.
	flights flights[[]entry]

	mu       sync.Mutex
	cache    map[string]cachedAnswer
	failures map[string]failure
}

// failure is why there was no answer, and until when there is no new question.
type failure struct {
	err   error
	pause time.Duration
	until time.Time
}

var _ Source = (*Plugin)(nil)

// cachedAnswer is an answer and until when it counts; zero where it is not kept.
type cachedAnswer struct {
	entries []entry
	until   time.Time
}

// The keys under which an answer is kept: for one image, for its registry, or for all.
const (
	keyImage    = "Image"
	keyRegistry = "Registry"
	keyGlobal   = "Global"
)

// Name implements Source.
func (p *Plugin) Name() string { return "credential provider " + p.name }

// Find implements Source.
func (p *Plugin) Find(ctx context.Context, ref cri.Reference) ([]cri.Credential, error) {
	if !p.isFor(ref) {
		return nil, nil
	}
	entries, err := p.flights.do(ctx, ref.Repository(), func(ctx context.Context) ([]entry, error) { return p.entries(ctx, ref) })
	if err != nil {
		return nil, err
	}
	var found []cri.Credential
	for _, e := range matching(entries, ref) {
		found = append(found, e.credential)
	}
	return found, nil
}

// entries are what was kept, else what the program answers now.
func (p *Plugin) entries(ctx context.Context, ref cri.Reference) ([]entry, error) {
	p.mu.Lock()
	entries, ok := p.kept(ref)
	failed := p.failures[ref.Repository()]
	p.mu.Unlock()
	if ok {
		return entries, nil
	}
	if failed.err != nil && time.Now().Before(failed.until) {
		return nil, failed.err
	}
	a, key, err := p.ask(ctx, ref)
	if ctx.Err() != nil { // a question that was given up says nothing of the provider
		return a.entries, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		pause := min(max(2*failed.pause, firstPause), longestPause)
		p.failures[ref.Repository()] = failure{err: err, pause: pause, until: time.Now().Add(pause)}
		return nil, err
	}
	delete(p.failures, ref.Repository())
	if !a.until.IsZero() {
		p.cache[key] = a
	}
	return a.entries, nil
}

func (p *Plugin) isFor(ref cri.Reference) bool {
	for _, i := range p.images {
		if i.matches(ref) {
			return true
		}
	}
	return false
}

// Refused implements Source: what was kept is dropped, so that the program is asked again.
func (p *Plugin) Refused(ref cri.Reference) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	dropped := false
	for _, key := range keysOf(ref) {
		if _, ok := p.cache[key]; ok {
			delete(p.cache, key)
			dropped = true
		}
	}
	return dropped
}

// keysOf are the keys under which an answer for an image may be kept.
func keysOf(ref cri.Reference) []string {
	return []string{keyImage + " " + ref.Repository(), keyRegistry + " " + ref.Host(), keyGlobal}
}

func (p *Plugin) kept(ref cri.Reference) ([]entry, bool) {
	for _, key := range keysOf(ref) {
		if a, ok := p.cache[key]; ok && time.Now().Before(a.until) {
			return a.entries, true
		}
	}
	return nil, false
}

// pluginAnswer is what a provider answers.
type pluginAnswer struct {
	APIVersion    string  `json:"apiVersion"`
	Kind          string  `json:"kind"`
	CacheKeyType  string  `json:"cacheKeyType"`
	CacheDuration *string `json:"cacheDuration"`
	Auth          map[string]struct {
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"auth"`
}

// ask runs the program, and gives its answer and the key under which to keep it. The image is named without its tag, as
// the kubelet does (pkg/kubelet/images, EnsureImageExists).
func (p *Plugin) ask(ctx context.Context, ref cri.Reference) (_ cachedAnswer, key string, _ error) {
	question, err := json.Marshal(map[string]string{
		"apiVersion": pluginAPIVersion, "kind": "CredentialProviderRequest", "image": ref.Repository(),
	})
	if err != nil {
		return cachedAnswer{}, "", fmt.Errorf("question: %w", err)
	}
	out, err := p.run(ctx, question)
	if err != nil {
		return cachedAnswer{}, "", err
	}
	answer, err := parseAnswer(out)
	if err != nil {
		return cachedAnswer{}, "", err
	}
	entries, keep, err := answer.read(p.keep)
	key = map[string]string{
		keyImage: keyImage + " " + ref.Repository(), keyRegistry: keyRegistry + " " + ref.Host(), keyGlobal: keyGlobal,
	}[answer.CacheKeyType]
	a := cachedAnswer{entries: entries}
	if keep >= shortestKeep {
		a.until = time.Now().Add(keep)
	}
	return a, key, err
}

// parseAnswer reads an answer. Its errors say nothing of what is in it.
func parseAnswer(out []byte) (pluginAnswer, error) {
	var a pluginAnswer
	switch {
	case json.Unmarshal(out, &a) != nil:
		return a, errors.New("its answer is no CredentialProviderResponse")
	case a.APIVersion != pluginAPIVersion || a.Kind != "CredentialProviderResponse":
		return a, fmt.Errorf("its answer is not a CredentialProviderResponse of %s", pluginAPIVersion)
	case a.CacheKeyType != keyImage && a.CacheKeyType != keyRegistry && a.CacheKeyType != keyGlobal:
		return a, errors.New("its answer has a cacheKeyType that is none of Image, Registry and Global")
	}
	return a, nil
}

// read gives the credentials, and how long they may be kept.
func (a pluginAnswer) read(keep time.Duration) (entries []entry, _ time.Duration, err error) {
	if a.CacheDuration != nil {
		if keep, err = time.ParseDuration(*a.CacheDuration); err != nil {
			return nil, 0, errors.New("its answer has a cacheDuration that is no duration")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.Auth)) { // always in one order, as in a secret
		c := a.Auth[key]
		if pattern, ok := parsePattern(key); ok {
			entries = append(entries, entry{pattern: pattern, credential: cri.Credential{Username: c.Username, Password: c.Password}})
		}
	}
	return entries, keep, nil
}

// run runs the program with a question on its standard input. When the time is up it is killed with all its children; those
// that it leaves behind are killed too, and its answer counts.
// What it says on standard error is not passed on: there may be secrets in it.
func (p *Plugin) run(ctx context.Context, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("it did not answer within %v", p.timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, p.args...) //nolint:gosec // that is what the kubelet's configuration is for
	cmd.Env = p.env
	cmd.Stdin = bytes.NewReader(question)
	out := &bounded{limit: maxAnswer, full: cancel}
	cmd.Stdout = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pluginGrace
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly nobody is left
	}
	switch {
	case out.exceeded:
		return nil, fmt.Errorf("it answered with more than %d bytes", maxAnswer)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // which says that it ended well, and a child held its output
		return nil, fmt.Errorf("it failed: %w", err)
	default:
		return out.buffer.Bytes(), nil
	}
}

// bounded keeps what is written to it, up to a limit.
type bounded struct {
	buffer   bytes.Buffer
	limit    int
	exceeded bool
	full     func()
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > b.limit {
		b.exceeded = true
		b.full()
		return 0, errors.New("too much")
	}
	return b.buffer.Write(p)
}
