package index

import "context"

// Point is a place in the change feed. Epoch is a random text made with the
// store; Revision counts up within it, by one for each transaction that
// changed a row.
type Point struct {
	Epoch    string
	Revision int64
}

// Fence proves that a writer still owns its job. The store checks it inside
// each writing transaction and refuses with code fault.Fenced when the epoch
// has moved on. The zero Fence checks nothing: what no job
// owns, such as a pin, is written with it.
type Fence struct {
	Job    string
	Target string
	Epoch  int64
}

// Known is what a run keeps in memory of each row it may meet again.
type Known struct {
	Digest  Digest
	Missing bool
}

// Checkpoint says how far a walk has come. It is written with each page.
type Checkpoint struct {
	Upstream   string
	Run        string // the run that wrote it
	Generation int64  // counts the walks of this upstream; one walk may span runs
	List       string // the route walked
	Cursor     string // opaque token of the next page; "" before the first and after the last
	Pages      int    // pages of this walk
	Seen       int    // distinct ids of this walk
	Done       bool   // the walk reached its end
}

// Commit is one page's transaction: rows, directories and checkpoint together,
// or nothing.
type Commit struct {
	Upstream  string
	Namespace string // metadata namespace of the projection
	// Base is the feed revision read before the page was asked for: documents
	// committed after it outlive the page.
	Base        int64
	Records     []Record
	Directories []Directory // those that the records name for the first time in this run
	Checkpoint  *Checkpoint // nil: leave it as it is
	DryRun      bool        // do everything, then roll back
}

// Directory maps a directory as given to its canonical form.
type Directory struct {
	Given     string
	Canonical string
}

// Result counts what a commit did. Unchanged rows are those whose observation
// differed in nothing that a reader can see.
type Result struct {
	Added, Updated, Unchanged, Archived, Restored int
}

// ArchivedFilter chooses by archive state.
type ArchivedFilter string

// The three values of --archived.
const (
	ArchivedNo   ArchivedFilter = "no"
	ArchivedOnly ArchivedFilter = "only"
	ArchivedAll  ArchivedFilter = "all"
)

// Query selects and orders entries: by activity, newest first, then by id.
type Query struct {
	Upstream  string         // "" for all
	Directory string         // canonical form; "" for all
	Given     string         // with Directory: the same as it was asked for; a session that has either is meant
	Archived  ArchivedFilter // "" means ArchivedNo
	Children  bool           // children too, not only roots
	Missing   bool           // missing ones too
	Limit     int            // at most this many; 0 for no bound
}

// Counts says how many rows an upstream has, by state. Roots only, system
// sessions left out, except where it says otherwise.
type Counts struct {
	Upstream string
	Active   int
	Archived int
	Missing  int // roots and children
	Children int // children that are not missing
	System   int // system sessions that are not missing
	Rows     int // every row
}

// Walk is a walk that stopped at its budget, kept so that the next run goes
// on behind it.
type Walk struct {
	Checkpoint
	IDs []string // every id seen so far
}

// Store is what the session index needs of a database. All methods are safe
// for concurrent use. Each write happens in one transaction.
type Store interface {
	// Point returns the present place in the feed.
	Point(ctx context.Context) (Point, error)
	// Known returns what is kept of every row of an upstream, by id.
	Known(ctx context.Context, upstream string) (map[string]Known, error)
	// KnownIn returns the ids of the rows that are present and whose directory
	// as given is one of those named.
	KnownIn(ctx context.Context, upstream string, directories []string) ([]string, error)
	// Directories returns every directory of an upstream.
	Directories(ctx context.Context, upstream string) ([]Directory, error)
	// Commit merges a page. Records whose rows do not change cost no write,
	// and a commit that changes no row moves no revision.
	Commit(ctx context.Context, fence Fence, c Commit) (Result, error)
	// SetDirectories replaces canonical forms; the rows of a directory whose
	// form changes get a new revision.
	SetDirectories(ctx context.Context, fence Fence, upstream string, dirs []Directory) error
	// MarkMissing sets the missing state of rows that have it not, at a time
	// in ms, and returns how many it set. Rows, metadata and pins stay.
	MarkMissing(ctx context.Context, fence Fence, upstream string, ids []string, at int64) (int, error)
	// Checkpoint returns the last checkpoint of an upstream, or nil.
	Checkpoint(ctx context.Context, upstream string) (*Checkpoint, error)
	// SaveWalk keeps an unfinished walk; LoadWalk returns it, or nil; DropWalk
	// forgets it.
	SaveWalk(ctx context.Context, fence Fence, w Walk) error
	LoadWalk(ctx context.Context, upstream string) (*Walk, error)
	DropWalk(ctx context.Context, fence Fence, upstream string) error

	// List returns the entries of a query.
	List(ctx context.Context, q Query) ([]Entry, error)
	// Get returns the entries with this id, one an upstream, in any state.
	Get(ctx context.Context, id string) ([]Entry, error)
	// Document returns the committed metadata of a session; NoMetadata when
	// it has none.
	Document(ctx context.Context, upstream, id string) ([]byte, error)
	// Documented returns the ids of an upstream's sessions whose committed
	// metadata is not empty.
	Documented(ctx context.Context, upstream string) ([]string, error)
	// Changes returns the entries whose revision is above since, in order of
	// revision, then upstream and id. Entries of one revision come together,
	// since a Point names no place within it: the answer ends with the last
	// revision that fits limit whole, or is the first one alone where that is
	// larger. A limit of 0 is no bound.
	Changes(ctx context.Context, since int64, limit int) ([]Entry, error)
	// Counts returns the counts of every upstream, by name.
	Counts(ctx context.Context) ([]Counts, error)
	// SetPinned pins or unpins a session in any state; fault.NotFound when it
	// is unknown. The row of a pin that changes gets a new revision.
	SetPinned(ctx context.Context, upstream, id string, pinned bool) error
}
