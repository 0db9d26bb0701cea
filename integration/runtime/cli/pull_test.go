package cli_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// One bad reference of three does not keep the others from being pulled; a table tells what became of each.
func TestPullOfThreeReferencesOfWhichOneIsBad(t *testing.T) {
	n := newNode(t)
	_, a := n.Push(t, "lab/a:1", 401, 300*kib)
	_, b := n.Push(t, "lab/b:1", 402, 300*kib)
	for _, bad := range []struct{ ref, reason string }{
		{n.Registry.Ref("lab/missing:1"), "ImageNotFound"}, {"https://" + n.Registry.Ref("lab/a:1"), "InvalidReference"},
	} {
		o := n.run(t, "pull", a, bad.ref, b)
		o.wants(t, 1, []string{"REFERENCE", "RESULT", bad.reason}, []string{"1 of 3 images failed", bad.ref})
		if rows := regexp.MustCompile(`(?m)^(\S+) +(pulled|already present|failed) `).FindAllStringSubmatch(o.stdout, -1); len(rows) != 3 {
			t.Errorf("the table has other rows: %v", rows)
		}
	}
	for _, ref := range []string{a, b} {
		if out := n.MustCrictl(t, "inspecti", "-q", ref); !strings.Contains(out, ref) {
			t.Errorf("%s is not there: %s", ref, out)
		}
	}
}

// Every change is a line of JSON; they add up to the image and never go back. An image that is there costs nothing.
func TestPullAsJSON(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 411, 200*kib, 3*mib)
	n.Registry.Inject(harness.GetBlob(img.Layers[1].Digest), harness.Rate(2*mib))
	o := n.run(t, "pull", "-o", "json", ref)
	o.wants(t, 0, []string{`"phase":"resolving"`, `"etaSeconds":`, `"chainID":`, `"startedAt":`}, nil)
	var last cri.Progress
	for line := range strings.Lines(o.stdout) {
		var p cri.Progress
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if here := p.Bytes.Present + p.Bytes.Fetched; here < last.Bytes.Present+last.Bytes.Fetched || here > p.Bytes.Total || !cri.CanMove(last.Phase, p.Phase) {
			t.Errorf("went from %s %+v to %s %+v", last.Phase, last.Bytes, p.Phase, p.Bytes)
		}
		last = p
	}
	if last.Phase != cri.PhaseReady || last.Bytes.Fetched != size(img) || last.Digest != img.Descriptor.Digest || last.ReadyAt.IsZero() {
		t.Errorf("the last line is %+v", last)
	}
	n.Registry.Forget()
	o = n.run(t, "pull", "-o", "json", ref)
	o.wants(t, 0, []string{`"phase":"ready"`}, nil)
	if sent := n.Fetched(t, img.Layers...); sent != 0 {
		t.Errorf("%d bytes were fetched though all was there", sent)
	}
}

// In a pipe there are plain lines, and nothing of the libraries below on stderr.
func TestPullAsLines(t *testing.T) {
	n := newNode(t)
	_, ref := n.Push(t, "lab/a:1", 421, 200*kib, 300*kib)
	o := n.run(t, "pull", ref)
	o.wants(t, 0, []string{"resolving " + ref, "pulling " + ref, "ready " + ref, "digest=sha256:"}, nil)
	if strings.ContainsAny(o.stdout, "\x1b\r") {
		t.Errorf("control characters in a pipe: %q", o.stdout)
	}
	n.run(t, "pull", ref).wants(t, 0, []string{"already present"}, nil)
}

// What plan says is what pull then does.
func TestPlanIsWhatPullDoes(t *testing.T) {
	n := newNode(t)
	one, first := n.Push(t, "lab/one:1", 431, 200*kib, 1*mib)
	two, second := n.Push(t, "lab/two:1", 431, 200*kib, 2*mib)
	n.run(t, "pull", first).wants(t, 0, nil, nil)
	n.Registry.Forget()
	o := n.run(t, "plan", "-o", "json", first, second)
	o.wants(t, 0, nil, nil)
	var plan struct{ Fetch int64 }
	if err := json.Unmarshal([]byte(o.stdout), &plan); err != nil {
		t.Fatal(err)
	}
	if sent := n.Fetched(t, append(one.Layers, two.Layers...)...); sent != 0 || plan.Fetch != two.Layers[1].Size {
		t.Errorf("plan fetched %d bytes and says %d, want none and %d", sent, plan.Fetch, two.Layers[1].Size)
	}
	n.run(t, "pull", first, second).wants(t, 0, nil, nil)
	if sent := n.Fetched(t, two.Layers...); sent != plan.Fetch {
		t.Errorf("pull fetched %d bytes, plan said %d", sent, plan.Fetch)
	}
	n.run(t, "plan", first, second).wants(t, 0, []string{"lab/two:1"}, nil)
}

// Ctrl-C ends a pull, and the next one goes on.
func TestInterrupt(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 441, 200*kib, 8*mib)
	slow := img.Layers[1]
	remove := n.Registry.Inject(harness.GetBlob(slow.Digest), harness.Rate(3*mib))
	cmd := n.command(t, "pull", ref)
	o := finish(t, cmd, func() {
		if err := n.Registry.Wait(harness.Deadline(t), func(harness.Requests) bool { return n.Registry.Served(slow.Digest) > 3*mib }); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	})
	o.wants(t, 130, nil, []string{"interrupted", "goes on"})
	remove()
	n.run(t, "pull", ref).wants(t, 0, []string{"ready " + ref}, nil)
	if sent := n.Fetched(t, img.Layers...); sent > size(img)+mib {
		t.Errorf("%d bytes were fetched in all, of an image of %d", sent, size(img))
	}
}

// On a terminal every layer has a bar; afterwards the terminal is as it was.
func TestPullOnATerminal(t *testing.T) {
	n := newNode(t)
	img, ref := n.Push(t, "lab/a:1", 451, 200*kib, 3*mib)
	n.Registry.Inject(harness.GetBlob(img.Layers[1].Digest), harness.Rate(2*mib))
	for _, env := range []string{"COLOR=yes", "NO_COLOR=1"} {
		cmd := n.command(t, "pull", ref)
		cmd.Env = append(cmd.Env, "TERM=xterm-256color", env)
		master, slave := terminal(t)
		cmd.Stdout, cmd.Stderr = slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = slave.Close()
		shown := make(chan string, 1)
		go func() {
			var all strings.Builder
			buffer := make([]byte, 4096)
			for {
				k, err := master.Read(buffer)
				all.Write(buffer[:k])
				if err != nil { // the other side is closed
					shown <- all.String()
					return
				}
			}
		}()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		text := <-shown
		for _, want := range []string{img.Layers[1].Digest.Encoded()[:12], "fetching", "[=", "total", "MB/s", "left"} {
			if env == "COLOR=yes" && !strings.Contains(text, want) {
				t.Errorf("%q was never shown: %q", want, text)
			}
		}
		if colored := regexp.MustCompile(`\x1b\[\d+m`).MatchString(text); colored != (env == "COLOR=yes") {
			t.Errorf("%s: colours: %v", env, colored)
		}
		if hidden, shown := strings.Count(text, "\x1b[?25l"), strings.Count(text, "\x1b[?25h"); hidden > shown {
			t.Errorf("the cursor stays hidden: %q", text)
		}
		if !strings.HasSuffix(text, "\n") {
			t.Errorf("the last line is not ended: %q", text)
		}
		n.MustCrictl(t, "rmi", ref)
	}
}

// terminal opens a pseudo terminal of 100 columns and 30 rows.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
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
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
