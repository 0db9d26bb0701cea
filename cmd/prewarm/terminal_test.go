package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/cri"
)

// screen is what was written to a terminal; seen is closed once that has the needle in it.
type screen struct {
	text   []byte
	needle []byte
	seen   chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	before := bytes.Contains(s.text, s.needle)
	s.text = append(s.text, p...)
	if !before && bytes.Contains(s.text, s.needle) {
		close(s.seen)
	}
	return len(p), nil
}

// openTerminal makes a pseudo-terminal of 80×24 (pty(7)), of which s gets what is written to it. The returned function
// closes it and gives all of it.
func openTerminal(t *testing.T, s *screen) (tty *os.File, text func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(s, master) // ends with EIO when the other side is closed
	}()
	return tty, func() string {
		if err := tty.Close(); err != nil {
			t.Error(err)
		}
		<-read
		return strings.ReplaceAll(string(s.text), "\r\n", "\n")
	}
}

func TestPullOnATerminal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env           map[string]string
		flags         []string
		shows         string
		bars, colored bool
	}{
		"bars":       {nil, nil, "  total  ", true, true},
		"NO_COLOR":   {map[string]string{"NO_COLOR": "1"}, nil, "  total  ", true, false},
		"--no-color": {nil, []string{"--no-color"}, "  total  ", true, false},
		"dumb":       {map[string]string{"TERM": "dumb"}, nil, "state=fetching", false, false},
		"json":       {nil, []string{"-o", "json"}, `"state":"fetching"`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &screen{needle: []byte(tc.shows), seen: make(chan struct{})}
			tty, text := openTerminal(t, s)
			f := newFake(t, "r.example/a:1", "r.example/b:1")
			f.present["r.example/b:1"] = true
			var stderr bytes.Buffer
			a := app{
				stdout: tty, stderr: &stderr,
				getenv:  func(name string) string { return tc.env[name] },
				connect: func(context.Context, cri.Options) (containerRuntime, error) { return f, nil },
			}
			f.pulling = func() {
				select {
				case <-s.seen:
				case <-time.After(10 * time.Second):
					t.Errorf("%q was not shown within 10 s", tc.shows)
				}
			}
			code := a.run(t.Context(), append(tc.flags, "pull", "r.example/a:1", "r.example/b:1"))
			out := text()
			if code != exitOK || stderr.Len() != 0 {
				t.Errorf("exit code %d, stderr %q", code, stderr.String())
			}
			if got := strings.Contains(out, "[1/2] r.example/a:1  "); got != tc.bars {
				t.Errorf("bars: %v, want %v:\n%q", got, tc.bars, out)
			}
			if got := strings.Contains(out, "\x1b[32m"); got != tc.colored {
				t.Errorf("colours: %v, want %v:\n%q", got, tc.colored, out)
			}
			if name != "json" && !strings.Contains(out, "\nREFERENCE") {
				t.Errorf("no table:\n%q", out)
			}
		})
	}
}
