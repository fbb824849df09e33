package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/internal/store"
	"annals/internal/store/sqlite"
	"annals/worker"
	"annals/worker/opencode"
)

// openStore opens the store for writing, and makes it when it is not there.
func (a *app) openStore(ctx context.Context) (*store.Store, error) {
	return sqlite.Open(ctx, sqlite.Config{Path: a.paths.database(), Log: a.log})
}

// openForReading opens the store for a command that only reads. On a machine
// without one it returns an empty store in memory, and exists = false:
// looking must not create anything.
func (a *app) openForReading(ctx context.Context) (st *store.Store, exists bool, err error) {
	path := a.paths.database()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		st, err = sqlite.Open(ctx, sqlite.Config{Path: sqlite.InMemory, Log: a.log})
		return st, false, err
	}
	st, err = sqlite.Open(ctx, sqlite.Config{Path: path, Log: a.log})
	return st, true, err
}

// keeper hands out the jobs of the store.
func (a *app) keeper(st jobs.Ledger) *jobs.Keeper {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return jobs.New(jobs.Config{
		Ledger: st, LockDir: a.paths.locks(), StoreID: storeID(a.paths.database()),
		Owner: fmt.Sprintf("%s:%d", host, os.Getpid()), Now: time.Now,
	})
}

// storeID tells stores apart in one lock directory, whichever way their path
// is written.
func storeID(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// worker pairs the worker with this machine's parts.
func (a *app) worker(st *store.Store, draw func(worker.Progress)) *worker.Worker {
	x := &a.cfg.Index
	return worker.New(worker.Config{
		Store: st, Ledger: st, Keeper: a.keeper(st), Log: a.log,
		Namespace: x.MetadataNamespace, PageSize: x.PageSize, PageBudget: x.PageBudget,
		TimeBudget: time.Duration(x.TimeBudget), MaxMissing: x.MaxMissing, MaxMissingRows: x.MaxMissingRows,
		Wait: time.Duration(x.Wait), Progress: draw, Waiting: a.waiting,
	})
}

func (a *app) waiting(l jobs.Lease) {
	a.note("another sync of %q is running (run %s, %s); waiting up to %s for it to end", l.Target, l.Run, l.Owner, a.cfg.Index.Wait)
}

// localName is the name of the upstream from the environment and of the
// managed one.
const localName = "local"

// upstreams returns the configured upstreams, or the one of the environment,
// or the managed one; with a name, only that.
func (a *app) upstreams(name string) ([]worker.Upstream, error) {
	var all []worker.Upstream
	for _, u := range a.cfg.Upstreams {
		all = append(all, worker.Upstream{Name: u.Name, Connect: a.remote(u)})
	}
	if len(all) == 0 {
		all = append(all, worker.Upstream{Name: localName, Connect: a.local()})
	}
	if name == "" {
		return all, nil
	}
	var names []string
	for _, u := range all {
		if u.Name == name {
			return []worker.Upstream{u}, nil
		}
		names = append(names, u.Name)
	}
	return nil, fault.New(fault.Usage, fmt.Sprintf("there is no upstream %q", name), "there are: "+strings.Join(names, ", "))
}

// connector is how an upstream's server is reached.
type connector = func(context.Context) (worker.Server, func() error, error)

// local is the upstream without configuration: the server that the
// environment names, or one of our own.
func (a *app) local() connector {
	if u := a.getenv("OPENCODE_SERVER_URL"); u != "" {
		return a.remote(a.fromEnvironment(u))
	}
	return a.managed
}

func (a *app) remote(u upstreamEntry) connector {
	return func(context.Context) (worker.Server, func() error, error) {
		password, err := a.password(u)
		if err != nil {
			return nil, nil, err
		}
		return a.client(opencode.Config{Name: u.Name, URL: u.URL, Username: u.Username, Password: password})
	}
}

// checkUpstreams finds what is wrong with the configuration of the upstreams
// before a run begins: it is the call that is wrong then, and no run failed.
func (a *app) checkUpstreams(name string) error {
	entries := a.cfg.Upstreams
	if u := a.getenv("OPENCODE_SERVER_URL"); len(entries) == 0 && u != "" {
		entries = []upstreamEntry{a.fromEnvironment(u)}
	}
	for _, u := range entries {
		if name != "" && u.Name != name {
			continue
		}
		_, done, err := a.remote(u)(context.Background())
		if err != nil {
			return err
		}
		if err := done(); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) fromEnvironment(url string) upstreamEntry {
	return upstreamEntry{Name: localName, URL: url, Username: a.getenv("OPENCODE_SERVER_USERNAME")}
}

// password reads an upstream's password from where its entry says.
func (a *app) password(u upstreamEntry) (string, error) {
	switch {
	case u.PasswordEnv != "":
		password, ok := a.lookupEnv(u.PasswordEnv)
		if !ok {
			return "", fault.New(fault.Config, fmt.Sprintf("the password of upstream %q: the variable %s is not set", u.Name, u.PasswordEnv),
				"set it, or use password_file, which cron jobs can read too")
		}
		return password, nil
	case u.PasswordFile == "" && u.Name == localName && len(a.cfg.Upstreams) == 0:
		return a.getenv("OPENCODE_SERVER_PASSWORD"), nil
	case u.PasswordFile == "":
		return "", nil
	}
	st, err := os.Stat(u.PasswordFile)
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return "", fault.Wrap(err, fault.Config, "", "the password of upstream %q", u.Name)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return "", fault.New(fault.Config, fmt.Sprintf("the password file of upstream %q can be read by others", u.Name),
			"run: chmod 600 "+u.PasswordFile)
	}
	raw, err := os.ReadFile(u.PasswordFile)
	if err != nil {
		return "", fault.Wrap(err, fault.Config, "", "the password of upstream %q", u.Name)
	}
	return strings.TrimRight(string(raw), "\r\n"), nil
}

func (a *app) client(c opencode.Config) (worker.Server, func() error, error) {
	x := &a.cfg.Index
	c.RequestTimeout, c.Retries = time.Duration(x.RequestTimeout), x.Retries
	if x.Retries == 0 {
		c.Retries = -1
	}
	client, err := opencode.New(c)
	if err != nil {
		return nil, nil, err
	}
	return client, func() error { client.Close(); return nil }, nil
}

// managed starts a server of our own for as long as the run lasts.
func (a *app) managed(ctx context.Context) (worker.Server, func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Internal, "", "the path of this program")
	}
	m, err := opencode.StartManaged(ctx, opencode.ManagedConfig{
		Program: a.cfg.OpenCode.Program, Self: []string{self, superviseName}, Env: a.env,
		WorkDir: a.paths.managed(), StartTimeout: time.Duration(a.cfg.OpenCode.StartTimeout), Log: a.log,
	})
	if err != nil {
		return nil, nil, err
	}
	server, done, err := a.client(opencode.Config{Name: localName, URL: m.URL, Password: m.Password})
	if err != nil {
		return nil, nil, errors.Join(err, m.Stop())
	}
	return server, func() error { return errors.Join(done(), m.Stop()) }, nil
}

// canonical is the form of a directory that lists compare with.
func canonical(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fault.Wrap(err, fault.Usage, "", "the directory %q", dir)
	}
	var r index.Resolver
	c, _ := r.Resolve(abs)
	return c, nil
}
