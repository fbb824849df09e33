package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"annals/internal/fault"
	"annals/internal/index"
)

func sessionsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "sessions",
		Short: "See the sessions of the index",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.PersistentFlags().BoolVar(&a.utc, "utc", false, "print times in UTC")
	c.AddCommand(sessionsListCommand(a), sessionsShowCommand(a))
	return c
}

func sessionsListCommand(a *app) *cobra.Command {
	var q index.Query
	var directory, archived string
	c := &cobra.Command{
		Use:   "list",
		Short: "List sessions, the one last active first",
		Long: `List sessions, the one last active first: active roots, unless the flags say
otherwise. Sessions that tools make for themselves are in no list.`,
		Example: `  annals sessions list --limit 20
  annals sessions list --archived only
  annals sessions list --directory . --children --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch q.Archived = index.ArchivedFilter(archived); q.Archived {
			case index.ArchivedNo, index.ArchivedOnly, index.ArchivedAll:
			default:
				return fault.New(fault.Usage, fmt.Sprintf("--archived %q is none of no, only, all", archived), "")
			}
			if q.Limit < 0 {
				return fault.New(fault.Usage, "--limit is below 0", "0 lists all")
			}
			if cmd.Flags().Changed("directory") {
				if directory == "" {
					return fault.New(fault.Usage, "--directory is empty", "")
				}
				var err error
				q.Given = directory
				if q.Directory, err = canonical(directory); err != nil {
					return err
				}
			}
			return a.listSessions(cmd, q)
		},
	}
	f := c.Flags()
	f.StringVar(&directory, "directory", "", "only sessions of this `directory`")
	f.StringVar(&archived, "archived", "no", "archived sessions: `no, only or all`")
	f.BoolVar(&q.Children, "children", false, "sub-agents' sessions too")
	f.BoolVar(&q.Missing, "missing", false, "sessions that are gone at the upstream too")
	f.IntVar(&q.Limit, "limit", 0, "at most so `many`; 0 lists all")
	f.StringVar(&q.Upstream, "upstream", "", "only the upstream of this `name`")
	_ = c.RegisterFlagCompletionFunc("archived", fixed("no", "only", "all"))
	_ = c.MarkFlagDirname("directory")
	return c
}

// sessionView is a session as the command line and the API show it do.
// Times are milliseconds, 0 for none.
type sessionView struct {
	ID         string       `json:"id"`
	Title      string       `json:"title"`
	Directory  string       `json:"directory"`
	ParentID   string       `json:"parent_id"`
	Children   int          `json:"children"`
	Created    int64        `json:"created"`
	Updated    int64        `json:"updated"`
	Activity   int64        `json:"activity"`
	ArchivedAt int64        `json:"archived_at"`
	Status     index.Status `json:"status"`
	Pinned     bool         `json:"pinned"`
	Upstream   string       `json:"upstream"`
}

func viewOf(e *index.Entry) sessionView {
	return sessionView{ID: e.ID, Title: e.Title, Directory: e.Directory, ParentID: e.ParentID, Children: e.Children,
		Created: e.Created, Updated: e.Updated, Activity: e.Activity, ArchivedAt: e.ArchivedAt, Status: e.Status(),
		Pinned: e.Pinned, Upstream: e.Upstream}
}

func (a *app) listSessions(cmd *cobra.Command, q index.Query) error {
	st, exists, err := a.openForReading(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	limit := q.Limit
	if limit > 0 {
		q.Limit++ // one more tells whether the list was cut
	}
	entries, err := st.List(cmd.Context(), q)
	if err != nil {
		return err
	}
	cut := limit > 0 && len(entries) > limit
	if cut {
		entries = entries[:limit]
	}
	if a.json {
		views := make([]sessionView, len(entries))
		for i := range entries {
			views[i] = viewOf(&entries[i])
		}
		return a.printJSON(struct {
			SchemaVersion int           `json:"schema_version"`
			Sessions      []sessionView `json:"sessions"`
		}{1, views})
	}
	if len(entries) == 0 {
		a.explainEmpty(exists, q)
		return nil
	}
	if err := table(a.stdout, a.sessionRows(entries)); err != nil {
		return err
	}
	if cut {
		a.note("… and more; --limit 0 lists all")
	}
	return nil
}

func (a *app) sessionRows(entries []index.Entry) [][]string {
	rows := [][]string{{"ID", "ACTIVE", "STATUS", "CHILDREN", "DIRECTORY", "TITLE"}}
	for i := range entries {
		e := &entries[i]
		title := clean(e.Title, 60)
		if !e.Root() {
			title = "↳ " + title
		}
		rows = append(rows, []string{clean(e.ID, 0), a.when(e.Activity), string(e.Status()), itoa(e.Children), clean(e.Directory, 48), title})
	}
	return rows
}

// explainEmpty says why a list has nothing: a zero result explains itself.
func (a *app) explainEmpty(exists bool, q index.Query) {
	switch {
	case !exists:
		a.note("nothing is indexed yet; run `annals sync`")
	case q.Directory != "":
		a.note("no session of %s fits; try --archived all, --children or --missing", clean(q.Directory, 200))
	default:
		a.note("no session fits; try --archived all, --children or --missing")
	}
}

func sessionsShowCommand(a *app) *cobra.Command {
	var upstream string
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show one session, archived, child or missing too",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showSession(cmd, args[0], upstream)
		},
	}
	c.Flags().StringVar(&upstream, "upstream", "", "the upstream of this `name`, when several have the id")
	return c
}

func (a *app) showSession(cmd *cobra.Command, id, upstream string) error {
	st, _, err := a.openForReading(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	found, err := st.Get(cmd.Context(), id)
	if err != nil {
		return err
	}
	if upstream != "" {
		kept := found[:0]
		for _, e := range found {
			if e.Upstream == upstream {
				kept = append(kept, e)
			}
		}
		found = kept
	}
	switch len(found) {
	case 0:
		return fault.New("session_not_found", fmt.Sprintf("no session %q is indexed", clean(id, 80)), "run `annals sync`, or see `annals sessions list --archived all --children --missing`")
	case 1:
	default:
		return fault.New(fault.Usage, fmt.Sprintf("several upstreams have a session %q", clean(id, 80)), "name one with --upstream")
	}
	e := &found[0]
	if a.json {
		return a.printJSON(struct {
			SchemaVersion int         `json:"schema_version"`
			Session       sessionView `json:"session"`
		}{1, viewOf(e)})
	}
	rows := [][]string{
		{"id", clean(e.ID, 0)}, {"title", clean(e.Title, 0)}, {"status", string(e.Status())},
		{"directory", clean(e.Directory, 0)}, {"upstream", e.Upstream}, {"created", a.when(e.Created)},
		{"updated", a.when(e.Updated)}, {"active", a.when(e.Activity)},
	}
	if e.ArchivedAt > 0 {
		rows = append(rows, []string{"archived", a.when(e.ArchivedAt)})
	}
	if e.MissingAt > 0 {
		rows = append(rows, []string{"missing since", a.when(e.MissingAt)})
	}
	if !e.Root() {
		rows = append(rows, []string{"parent", clean(e.ParentID, 0)})
	}
	return table(a.stdout, append(rows, []string{"children", itoa(e.Children)}))
}
