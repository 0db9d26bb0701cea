package agent_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

const (
	// maxMemory is how much of an agent may be resident.
	maxMemory = 64 * mib
	// cycles is how often an image is lost and mended while something that is left over each time would add up.
	cycles = 10
)

// An agent is small while it pulls.
func TestResourcesOfAPull(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	sizes := []int64{8 * mib}
	for range 20 {
		sizes = append(sizes, 50*kib)
	}
	img, ref := n.Push(t, "lab/a:1", 821, sizes...)
	n.Registry.Inject(harness.GetBlob(img.Layers[0].Digest), harness.Rate(4*mib))
	n.configure(t, "a", ref)
	a := n.start(t)
	largest, looks := 0, 0
	before, begun := cpuTicks(t, a.PID), time.Now()
	until(t, a, "a", "ready", func(i status.ImageStatus) bool {
		largest, looks = max(largest, memory(t, a.PID)), looks+1
		return ready(i)
	})
	t.Logf("pulling: at most %d MiB RSS in %d looks, %d ticks of CPU in %v", largest/mib, looks, cpuTicks(t, a.PID)-before, time.Since(begun))
	if looks < 10 || largest > maxMemory {
		t.Errorf("%d MiB are resident, in %d looks", largest/mib, looks)
	}
}

// An agent does nothing while nothing happens, and what it does leaves nothing over.
func TestResources(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	var pairs []string
	for i := range cycles { // one image each: the first loss of an image is mended at once
		name := fmt.Sprintf("a%d", i)
		_, ref := n.Push(t, "lab/"+name+":1", uint64(900+i), 300*kib)
		pairs = append(pairs, name, ref)
	}
	n.configure(t, pairs...)
	a := n.start(t)
	for p := range slices.Chunk(pairs, 2) {
		untilReady(t, a, p[0])
	}
	files, routines := openFiles(t, a.PID), goroutines(t, a)
	for p := range slices.Chunk(pairs, 2) {
		before := untilReady(t, a, p[0])[0]
		n.MustCrictl(t, "rmi", p[1])
		until(t, a, p[0], "pulled again", func(i status.ImageStatus) bool { return ready(i) && i.StartedAt.After(before.ReadyAt) })
	}
	harness.Eventually(t, "no more files are open than before", func() bool { return openFiles(t, a.PID) <= files+1 })
	harness.Eventually(t, "no more goroutines run than before", func() bool { return goroutines(t, a) <= routines+1 })
	idle(t, a)
}

// idle holds an agent that has nothing to do to 1 % of a core.
func idle(t *testing.T, a *harness.Agent) {
	t.Helper()
	const while = 6 * time.Second
	before := cpuTicks(t, a.PID)
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
	used, rss := cpuTicks(t, a.PID)-before, memory(t, a.PID)
	t.Logf("idle: %d MiB RSS, %d ticks of CPU in %v, %d open files, %d goroutines", rss/mib, used, while, openFiles(t, a.PID), goroutines(t, a))
	if rss > maxMemory {
		t.Errorf("%d MiB are resident", rss/mib)
	}
	if used > 6 { // ticks of 10 ms: 1 % of a core
		t.Errorf("%d ticks of CPU in %v of idleness", used, while)
	}
}

// goroutines is how many run, while somebody asks.
func goroutines(t *testing.T, a *harness.Agent) int {
	t.Helper()
	code, body, err := a.Get(harness.Deadline(t), "/metrics")
	if err != nil || code != http.StatusOK {
		t.Fatalf("/metrics: %d, %v", code, err)
	}
	_, after, _ := strings.Cut(body, "\ngo_goroutines ")
	line, _, _ := strings.Cut(after, "\n")
	return number(t, line)
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// cpuTicks is the time on a CPU in ticks of 10 ms (proc(5), /proc/pid/stat, utime and stime).
func cpuTicks(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(after)
	return number(t, f[11]) + number(t, f[12])
}

// memory is the resident set, in bytes.
func memory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	return number(t, strings.Fields(after)[0]) * kib
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
