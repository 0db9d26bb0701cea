package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

func away() error {
	return &cri.Error{Reason: cri.ReasonRuntimeUnavailable, Noun: "socket /run/x.sock", Err: errors.New("no such file")}
}

// On a node that boots the agent may be there before the runtime.
func TestTheRuntimeIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.fail("Connect", away(), away(), away())
		b := startAgentWithout(t, f)
		synctest.Wait()
		if n, err := f.count("Connect"), b.board.lastRuntime(); n != 1 || !errors.Is(err, &cri.Error{Reason: cri.ReasonRuntimeUnavailable}) {
			t.Errorf("%d tries, runtime error %v: want one, and to be told why", n, err)
		}
		b.give(img)
		settle(time.Minute)
		if n, p := f.count("Connect"), b.board.get("a").Phase; n != 4 || p != cri.PhaseReady || b.board.lastRuntime() != nil {
			t.Errorf("%d tries, image %s, runtime error %v: want 4, ready, none", n, p, b.board.lastRuntime())
		}
		b.end(t)
	})
}

// What only a person can mend ends the agent, with the reason.
func TestWhatIsNoRuntimeEndsTheAgent(t *testing.T) {
	t.Parallel()
	for _, reason := range []cri.Reason{cri.ReasonRuntimeUnsupported, cri.ReasonPermissionDenied} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeRuntime()
			f.fail("Connect", &cri.Error{Reason: reason, Noun: "socket /run/x.sock", Err: errors.New("told so")})
			b := startAgentWithout(t, f)
			if err := <-b.done; cri.ReasonOf(err) != reason || !strings.Contains(err.Error(), "/run/x.sock") {
				t.Errorf("Run: %v, want %s and the socket", err, reason)
			}
			b.stop()
		})
	}
}

// An agent that is told to stop while it waits for the runtime stops.
func TestTheWaitForTheRuntimeCanBeEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.fail("Connect", away(), away(), away(), away(), away(), away(), away(), away())
		b := startAgentWithout(t, f)
		synctest.Wait()
		b.end(t)
	})
}

func TestTheAgentIsHealthyWhileItsLoopGoesRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.fail("Connect", away())
		b := startAgentWithout(t, f)
		synctest.Wait()
		if err := b.agent.Healthy(); err != nil {
			t.Errorf("while it waits for the runtime: %v", err)
		}
		settle(time.Minute)
		if err := b.agent.Healthy(); err != nil {
			t.Errorf("while it runs: %v", err)
		}
		hang := make(chan struct{})
		b.board.hang = hang
		b.configs <- config.Update{Err: errors.New("bad")}
		synctest.Wait()
		if err := b.agent.Healthy(); err == nil {
			t.Error("a loop that hangs counts as healthy")
		}
		close(hang)
		synctest.Wait()
		if err := b.agent.Healthy(); err != nil {
			t.Errorf("after that: %v", err)
		}
		b.end(t)
		if err := b.agent.Healthy(); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

// Every fault of a configuration is a record of its own, since logs are read by line.
func TestARefusedConfigurationIsLoggedFaultByFault(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a.refuse(t.Context(), config.Errors{{Field: "images[0].name"}, {Field: "kind"}})
	got := log.String()
	if strings.Count(got, "configuration refused") != 2 || !strings.Contains(got, "images[0].name") || !strings.Contains(got, "kind") {
		t.Errorf("log:\n%s", got)
	}
}
