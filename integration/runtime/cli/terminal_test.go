package cli_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

// erase is how the bars take their last frame away: to its first row, and everything from there on.
var erase = regexp.MustCompile(`\r\x1b\[\d+A\x1b\[J`)

// screen keeps what is written to a terminal.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// session is a command on a terminal of its own.
type session struct {
	*screen

	cmd      *exec.Cmd
	keyboard *os.File
	ended    chan struct{}
}

// onTerminal starts a command on a new terminal, as its foreground job.
func (n *node) onTerminal(t *testing.T, columns, rows uint16, env string, args ...string) *session {
	t.Helper()
	master, slave := terminal(t, columns, rows)
	s := &session{screen: &screen{}, cmd: n.command(t, args...), keyboard: master, ended: make(chan struct{})}
	s.cmd.Env = append(s.cmd.Env, "TERM=xterm-256color", env)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Error(err)
	}
	go func() {
		defer close(s.ended)
		_, _ = io.Copy(s.screen, master) // ends with EIO when the other side is closed
	}()
	return s
}

// shows waits until the terminal has got some text.
func (s *session) shows(t *testing.T, text string) {
	t.Helper()
	harness.Eventually(t, "the terminal shows "+text, func() bool { return strings.Contains(s.String(), text) })
}

// end waits until the command has ended. It gives the exit code, all that was written, and what of it is not erased.
func (s *session) end(t *testing.T) (code int, all, left string) {
	t.Helper()
	err := s.cmd.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() < 0) {
		t.Fatalf("%v\n%s", err, s)
	}
	<-s.ended
	all = s.String()
	frames := erase.Split(all, -1)
	return s.cmd.ProcessState.ExitCode(), all, frames[len(frames)-1]
}

// terminal opens a pseudo terminal (pty(7)).
func terminal(t *testing.T, columns, rows uint16) (master, slave *os.File) {
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
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// sane holds what is left on a terminal to its end: lines that are ended, a cursor that is seen, colours that are off.
func sane(t *testing.T, all, left string) {
	t.Helper()
	if !strings.HasSuffix(left, "\n") {
		t.Errorf("the last line is not ended: %q", left)
	}
	if hidden, shown := strings.Count(all, "\x1b[?25l"), strings.Count(all, "\x1b[?25h"); hidden > shown {
		t.Errorf("the cursor stays hidden: %q", all)
	}
	if on, off := len(color.FindAllString(all, -1)), strings.Count(all, "\x1b[0m"); on != 2*off {
		t.Errorf("%d sequences for colours, of which %d end one: %q", on, off, all)
	}
}

// color is a sequence that sets colours.
var color = regexp.MustCompile(`\x1b\[\d+m`)

// On a terminal every layer has a bar, and there is a total; afterwards there is one line for the image and nothing else.
func TestPullOnATerminal(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 451, 200*kib, 3*mib)
	n.Registry.Inject(harness.GetBlob(img.Layers[1].Digest), harness.Rate(2*mib))
	for name, tc := range map[string]struct {
		env     string
		flags   []string
		colored bool
	}{
		"colours":    {"NO_COLOR=", nil, true},
		"NO_COLOR":   {"NO_COLOR=1", nil, false},
		"--no-color": {"NO_COLOR=", []string{"--no-color"}, false},
	} {
		code, all, left := n.onTerminal(t, 100, 30, tc.env, append(tc.flags, "pull", ref)...).end(t)
		if code != 0 {
			t.Errorf("%s: exit code %d: %q", name, code, all)
		}
		plain := color.ReplaceAllString(all, "")
		for _, want := range []string{
			img.Layers[0].Digest.Encoded()[:12], img.Layers[1].Digest.Encoded()[:12], "  fetching   [=", "  total ", "  pulling    [", "MB/s", " left\n",
		} {
			if !strings.Contains(plain, want) {
				t.Errorf("%s: %q was never shown: %q", name, want, plain)
			}
		}
		if got := color.MatchString(all); got != tc.colored {
			t.Errorf("%s: colours: %v", name, got)
		}
		sane(t, all, left)
		line := regexp.MustCompile(`^` + regexp.QuoteMeta(ref) + `  pulled  sha256:\w{12}  3.35 MB, 3.35 MB fetched in \d+\.\ds\n$`)
		if !line.MatchString(color.ReplaceAllString(left, "")) {
			t.Errorf("%s: left on the terminal is %q, want %s", name, left, line)
		}
		n.MustCrictl(t, "rmi", ref)
	}
}

// Nothing is wider than a narrow terminal or higher than a low one, however many layers there are: else it would scroll.
func TestPullOnASmallTerminal(t *testing.T) {
	const columns, rows = 40, 12
	n := newNode(t)
	var sizes []int64
	for i := range int64(40) {
		sizes = append(sizes, 100*kib+i)
	}
	_, ref := n.Push(t, "lab/many:1", 455, sizes...)
	n.Registry.Inject(harness.GetBlob(""), harness.Rate(2*mib))
	code, all, left := n.onTerminal(t, columns, rows, "NO_COLOR=", "pull", ref).end(t)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	sane(t, all, left)
	frames := erase.Split(color.ReplaceAllString(all, ""), -1)
	for _, frame := range frames[:len(frames)-1] {
		lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
		if len(lines) >= rows {
			t.Fatalf("%d lines:\n%s", len(lines), frame)
		}
		for _, line := range lines {
			if len([]rune(line)) >= columns {
				t.Fatalf("%q is too wide", line)
			}
		}
	}
	if !strings.Contains(all, " more: ") || len(frames) < 5 {
		t.Errorf("%d frames, none of which says that there are more layers: %q", len(frames), all)
	}
}

// Ctrl-C on the keyboard takes the bars away, says what became of every image, and leaves the terminal as it was.
func TestCtrlCOnATerminal(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 458, 200*kib, 3*mib)
	_, other := n.Push(t, "lab/b:1", 459, 200*kib)
	n.Registry.Inject(harness.GetBlob(img.Layers[1].Digest), harness.Stall(2*mib, nil))
	s := n.onTerminal(t, 100, 30, "NO_COLOR=", "pull", ref, other)
	s.shows(t, " 66%")
	if _, err := s.keyboard.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	code, all, left := s.end(t)
	if code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	sane(t, all, left)
	left = color.ReplaceAllString(left, "")
	for _, want := range []string{"[2/2] " + other + "  not tried\n", "\nREFERENCE ", "prewarm: interrupted: what was fetched is kept"} {
		if !strings.Contains(left, want) {
			t.Errorf("%q is not there at the end: %q", want, left)
		}
	}
	if strings.Contains(left, "total") || strings.Contains(left, "^C") {
		t.Errorf("bars stay on the terminal: %q", left)
	}
}
