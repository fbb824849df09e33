package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"annals/fixtures/corpus"
	standin "annals/fixtures/opencode"
	"annals/fixtures/realopencode"
	"annals/worker"
)

// BenchmarkSync measures whole processes, as a person or cron starts them:
// wall time (ns/op), our own CPU (cpu-ms/op), the peak of resident memory
// (peak-MB) and HTTP requests. Beside each run of annals stands the floor: the
// barest program that fetches and decodes the same pages and inserts the same
// rows (fixtures/bin/floor).
func BenchmarkSync(b *testing.B) {
	dir := b.TempDir()
	annals, floor := filepath.Join(dir, "annals"), filepath.Join(dir, "floor")
	for binary, pkg := range map[string]string{annals: ".", floor: "annals/fixtures/bin/floor"} {
		if out, err := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, pkg).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	for _, n := range []int{2000, 10000} {
		c := corpus.Generate(corpus.Config{Seed: 3, Sessions: n, Ties: n / 5})
		b.Run(fmt.Sprintf("standin/%d", n), func(b *testing.B) {
			s := standin.Start(b, standin.Config{Corpus: c})
			benchServer(b, &bencher{annals: annals, floor: floor, url: s.URL, password: s.Password, touch: c.Sessions[n/2].ID})
		})
		b.Run(fmt.Sprintf("real/%d", n), func(b *testing.B) {
			s := benchReal(b, c)
			benchServer(b, &bencher{annals: annals, floor: floor, url: s.URL, password: s.Password, touch: c.Sessions[n/2].ID})
		})
	}
}

func benchReal(b *testing.B, c *corpus.Corpus) *realopencode.Server {
	s, err := realopencode.Filled(b, c.Fill).StartServer(b.Context(), realopencode.ServerConfig{Password: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Stop)
	return s
}

type bencher struct {
	annals, floor, url, password string
	touch                        string // the session that changes
	changes                      int
}

func benchServer(b *testing.B, s *bencher) {
	home := b.TempDir()
	b.Run("first", func(b *testing.B) {
		s.measure(b, func() { remove(b, filepath.Join(home, ".local")) }, s.annals, home, "sync", "--json")
	})
	b.Run("first/floor", func(b *testing.B) {
		db := filepath.Join(home, "floor.db")
		s.measure(b, func() { remove(b, db, db+"-wal", db+"-shm") }, s.floor, home, "-url", s.url, "-db", db)
	})
	b.Run("nothing-new", func(b *testing.B) {
		s.run(b, s.annals, home, "sync", "--json")
		s.measure(b, func() {}, s.annals, home, "sync", "--json")
	})
	b.Run("nothing-new/floor", func(b *testing.B) {
		s.measure(b, func() {}, s.floor, home, "-url", s.url)
	})
	b.Run("one-change", func(b *testing.B) {
		s.measure(b, func() { s.change(b) }, s.annals, home, "sync", "--json")
	})
}

func remove(b *testing.B, paths ...string) {
	for _, p := range paths {
		if err := os.RemoveAll(p); err != nil {
			b.Fatal(err)
		}
	}
}

// change renames a session at the upstream, which moves no time.
func (s *bencher) change(b *testing.B) {
	s.changes++
	body := strings.NewReader(`{"title":"change ` + strconv.Itoa(s.changes) + `"}`)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPatch, s.url+"/session/"+s.touch, body)
	if err != nil {
		b.Fatal(err)
	}
	req.SetBasicAuth("opencode", s.password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status)
	}
}

// figures are what one process took.
type figures struct {
	cpu      time.Duration
	peak     int // kB
	requests int64
}

func (s *bencher) measure(b *testing.B, prepare func(), binary, home string, args ...string) {
	var sum figures
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		prepare()
		b.StartTimer()
		f := s.run(b, binary, home, args...)
		sum.cpu += f.cpu
		sum.peak = max(sum.peak, f.peak)
		sum.requests += f.requests
	}
	b.ReportMetric(float64(sum.cpu.Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(sum.peak)/1024, "peak-MB")
	if sum.requests > 0 {
		b.ReportMetric(float64(sum.requests)/float64(b.N), "requests/op")
	}
}

// run runs a process and watches its memory. The kernel's own maximum for a
// child (ru_maxrss) begins with that of its parent, so the high-water mark is
// read from /proc while it runs; it only grows.
func (s *bencher) run(b *testing.B, binary, home string, args ...string) figures {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), binary, args...)
	cmd.Env = []string{"HOME=" + home, "OPENCODE_SERVER_URL=" + s.url, "OPENCODE_SERVER_PASSWORD=" + s.password}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	done, peak := make(chan struct{}), make(chan int, 1)
	go watch(cmd.Process.Pid, done, peak)
	err := cmd.Wait()
	close(done)
	f := figures{peak: <-peak}
	if err != nil {
		b.Fatalf("%v: %s", err, out.String())
	}
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		f.cpu = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	}
	var rep worker.Report
	if json.Unmarshal([]byte(out.String()), &rep) == nil && len(rep.Upstreams) == 1 {
		f.requests = rep.Upstreams[0].Requests
		if !rep.Upstreams[0].Complete {
			b.Fatal(out.String())
		}
	}
	return f
}

func watch(pid int, done <-chan struct{}, peak chan<- int) {
	high := 0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := strings.Cut(string(raw), "VmHWM:"); err == nil && ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			high = max(high, n)
		}
		select {
		case <-done:
			peak <- high
			return
		case <-tick.C:
		}
	}
}
