package e2e_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// agent is a process of the built binary, which tells a Node.
type agent struct{ *harness.Agent }

// start starts the agent of the machine; flags come on top of those that every agent has. It is stopped, which must go
// well, when the test ends.
func (m *machine) start(t *testing.T, flags ...string) *agent {
	t.Helper()
	return &agent{harness.NewAgent(t, append([]string{
		"--config=" + m.config, "--node-name=" + m.name, "--kubeconfig=" + m.cluster.Kubeconfig(), "--runtime-endpoint=" + m.Endpoint(),
	}, flags...)...)}
}

// stop sends SIGTERM and wants exit code 0 in time. It may be called again.
func (a *agent) stop(t *testing.T) {
	t.Helper()
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
}

// answers wants a status code, and words in the body, of a path now.
func (a *agent) answers(t *testing.T, path string, want int, words ...string) {
	t.Helper()
	code, body, err := a.Get(deadline(t), path)
	if err != nil {
		t.Fatal(err)
	}
	if code != want {
		t.Errorf("%s: %d, want %d\n%s", path, code, want, body)
	}
	hasWords(t, path, body, words...)
}

// hasWords wants words in a text.
func hasWords(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", what, w, text)
		}
	}
}

// until waits for a state and gives it.
func (a *agent) until(t *testing.T, what string, cond func(status.Snapshot) bool) status.Snapshot {
	t.Helper()
	s, err := a.Until(deadline(t), what, cond)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// problem waits until the agent says why it cannot tell the Node, and wants these words in it, in status and log.
func (a *agent) problem(t *testing.T, words ...string) {
	t.Helper()
	s := a.until(t, "there is a problem with the Node: "+words[0], func(s status.Snapshot) bool { return strings.Contains(s.NodeError, words[0]) })
	hasWords(t, "nodeError", s.NodeError, words...)
	if err := a.UntilLog(deadline(t), words...); err != nil {
		t.Error(err)
	}
}

// writes is how many writes to the API server the agent has counted, whatever became of them.
func (a *agent) writes(t *testing.T) int {
	t.Helper()
	return a.writesOf(t, "node")
}

// writesOf counts the writes that were tried to a kind of object.
func (a *agent) writesOf(t *testing.T, object string) int {
	t.Helper()
	code, body, err := a.Get(deadline(t), "/metrics")
	if err != nil || code != http.StatusOK {
		t.Fatalf("/metrics: %d %v", code, err)
	}
	sum := 0
	for line := range strings.Lines(body) {
		if _, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(line, `prewarm_api_writes_total{object="`+object+`"`) {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("/metrics: %s: %v", line, err)
			}
			sum += n
		}
	}
	return sum
}
