package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/cri"
)

func TestAWrongCommandLineIsExitCode2(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"pull":                       "name at least one image reference",
		"plan":                       "name at least one image reference",
		"pulll a":                    `unknown command "pulll"`,
		"pull --nosuch a":            "unknown flag: --nosuch",
		"pull --engine parallel a":   "valid is cri",
		"pull -o yaml a":             "valid is text, json",
		"pull --log-format logfmt a": "valid is text, json",
		"pull --log-level trace a":   "valid is debug, info, warn, error",
		"version now":                `unknown command "now"`,
		"plan --runtime-endpoint":    "flag needs an argument",
		"completion bash --nosuch":   "unknown flag: --nosuch",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "a")
			out := prewarm(t.Context(), f, strings.Fields(line)...)
			if out.code != exitUsage || out.stdout != "" || f.closed {
				t.Errorf("exit code %d, stdout %q, connected %v", out.code, out.stdout, f.closed)
			}
			if !strings.HasPrefix(out.stderr, "prewarm: ") || !strings.Contains(out.stderr, says) || !strings.Contains(out.stderr, "--help'") {
				t.Errorf("stderr %q, want %q in it", out.stderr, says)
			}
			if strings.Contains(out.stderr, "Usage:") {
				t.Errorf("the whole usage for a wrong word: %q", out.stderr)
			}
		})
	}
}

func TestARuntimeThatCannotBeReachedIsExitCode3(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"pull", "plan"} {
		var stdout, stderr bytes.Buffer
		a := app{stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }, connect: connect}
		socket := filepath.Join(t.TempDir(), "none.sock")
		code := a.run(t.Context(), []string{command, "--runtime-endpoint", "unix://" + socket, "-o", "json", "r.example/a:1"})
		if code != exitUnreachable || stdout.Len() != 0 {
			t.Errorf("%s: exit code %d, stdout %q", command, code, stdout.String())
		}
		if s := stderr.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, socket) || !strings.Contains(s, "is the container runtime running") {
			t.Errorf("%s: stderr %q", command, s)
		}
	}
}

func TestFlagsReachTheRuntime(t *testing.T) {
	t.Parallel()
	var got cri.Options
	a := app{
		stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, getenv: func(string) string { return "" },
		connect: func(_ context.Context, o cri.Options) (containerRuntime, error) {
			got = o
			return nil, errors.New("no")
		},
	}
	a.run(t.Context(), []string{"pull", "--runtime-endpoint", "unix:///r", "--image-endpoint", "unix:///i", "--registry-config-path", "/c:/d", "a"})
	if got.RuntimeEndpoint != "unix:///r" || got.ImageEndpoint != "unix:///i" || got.RegistryConfigPath != "/c:/d" || got.Logger == nil {
		t.Errorf("options %+v", got)
	}
	f := newFake(t, "r.example/a:1")
	prewarm(t.Context(), f, "pull", "--engine", "cri", "r.example/a:1")
	if len(f.pulls) != 1 || f.pulls[0].Engine != cri.EngineCRI || f.pulls[0].Interval != lookInterval {
		t.Errorf("pulls %+v", f.pulls)
	}
}

func TestErrorsCannotPlayWithTheTerminal(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.resolve["r.example/a:1"] = failure(cri.ReasonRegistryUnavailable, "r.example/a:1", "503 \x1b[2J\x07gone", "")
	out := prewarm(t.Context(), f, "pull", "r.example/a:1")
	if strings.ContainsAny(out.stderr+out.stdout, "\x1b\x07") || !strings.Contains(out.stderr, "gone") {
		t.Errorf("stderr %q, stdout %q", out.stderr, out.stdout)
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		flags            []string
		level            slog.Level
		info, warn, json bool
	}{
		{nil, slog.LevelWarn, false, true, false},
		{nil, slog.LevelInfo, true, true, false},
		{[]string{"--log-level", "debug", "--log-format", "json"}, slog.LevelWarn, true, true, true},
		{[]string{"--log-level", "error"}, slog.LevelInfo, false, false, false},
	} {
		t.Run(fmt.Sprint(tc.flags, tc.level), func(t *testing.T) {
			t.Parallel()
			var s shared
			cmd := &cobra.Command{}
			s.register(cmd)
			if err := cmd.ParseFlags(tc.flags); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			log := s.logger(&out, tc.level)
			log.InfoContext(t.Context(), "an info")
			log.WarnContext(t.Context(), "a warning")
			if got := strings.Contains(out.String(), "an info"); got != tc.info {
				t.Errorf("info logged: %v", got)
			}
			if got := strings.Contains(out.String(), "a warning"); got != tc.warn {
				t.Errorf("warning logged: %v", got)
			}
			first, _, _ := strings.Cut(out.String(), "\n")
			if got := json.Valid([]byte(first)) && first != ""; got != tc.json {
				t.Errorf("JSON: %v: %s", got, first)
			}
		})
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	a := app{getenv: func(string) string { return "" }}
	root := a.root(t.Context())
	for _, c := range append(root.Commands(), root) {
		if c.Example == "" || c.Short == "" {
			t.Errorf("%s: no example or no short help", c.Name())
		}
		if c.Name() != "version" && !strings.Contains(c.Long, "Exit codes:") {
			t.Errorf("%s: no exit codes in its help", c.Name())
		}
	}
	help := prewarm(t.Context(), newFake(t), "pull", "--help")
	if help.code != exitOK || !strings.Contains(help.stdout, "Examples:") || !strings.Contains(help.stdout, cri.EnvRuntimeEndpoint) {
		t.Errorf("exit code %d, help:\n%s", help.code, help.stdout)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"pull -o ":           "text\njson\n:4\n",
		"plan --log-format ": "text\njson\n:4\n",
		"pull --engine ":     "cri\n:4\n",
		"pull --log-level ":  "debug\ninfo\nwarn\nerror\n:4\n",
		"pull ":              ":4\n",
	} {
		out := prewarm(t.Context(), newFake(t), append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if out.stdout != want {
			t.Errorf("%q completes to %q, want %q", line, out.stdout, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := prewarm(t.Context(), newFake(t), "completion", shell); out.code != exitOK || !strings.Contains(out.stdout, "prewarm") {
			t.Errorf("%s: exit code %d, %d bytes", shell, out.code, len(out.stdout))
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	out := prewarm(t.Context(), newFake(t), "version")
	if want := fmt.Sprintf("prewarm v1.2.3 (%s, %s/%s)\n", runtime.Version(), runtime.GOOS, runtime.GOARCH); out.code != exitOK || out.stdout != want {
		t.Errorf("exit code %d, %q, want %q", out.code, out.stdout, want)
	}
	out = prewarm(t.Context(), newFake(t), "version", "-o", "json")
	var b build
	if err := json.Unmarshal([]byte(out.stdout), &b); err != nil || b.Version != "v1.2.3" || b.GoVersion != runtime.Version() || b.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("%q: %+v, %v", out.stdout, b, err)
	}
	if b := buildOf(""); b.Version == "" {
		t.Error("a binary that was built without a version has none")
	}
}
