package config

import (
	"context"
	"log/slog"
	"time"

	"replicator"
	"replicator/internal/seen"
)

// SinkType is a type of sink: what the file can say of such a sink and of its views, and how one is made. Each stands
// in the sink's own package.
type SinkType struct {
	Name  string   // as the file has it: type = "NAME"
	Keys  []string // of [sinks.*], besides type and timeout
	Kinds []Kind   // the kinds of views that it keeps

	// Read reads the keys of [sinks.*] into what becomes Sink.Settings. Secrets in it must have the type Secret.
	Read func(s *Section) any

	// ReadView reads what the kind of a view has besides the keys of every view. It completes s.View: Key, Member, Sum,
	// Settings, and Fields where the key fields doesn't give them.
	ReadView func(s *ViewSection) Target

	// Open makes a sink. It connects to nothing yet.
	Open func(o Opening) (replicator.Sink, error)
}

// Kind says what a view of a kind can be told, besides what every view can.
type Kind struct {
	Name string
	Need []Key    // what it must be told
	May  []string // what it may be told

	Not map[string]string // keys of other kinds that it can't have, and why not
}

// Key is a key of a section, with an example of its value as TOML.
type Key struct{ Name, Example string }

// Examples of keys that several types of sink have.
const (
	FieldsExample   = `["email"]`
	TemplateExample = `"user:{id}"`
)

func (k Kind) keys() []string {
	var keys []string
	for _, key := range k.Need {
		keys = append(keys, key.Name)
	}
	return append(keys, k.May...)
}

// Target is where a view is kept.
type Target struct {
	Key    string   // the view's key that names the place
	Places []string // comparable among the views of the type: two must not share one. None: the place is not known

	// Template makes the view's keys in its places. Views may share a place if no template can make another one's key.
	// Without a template, a view has its places alone.
	Template string

	Names []TargetName        // of columns or the like, which must not occur twice; nil: those of the view's fields
	Fold  func(string) string // equal for names that the target takes for one; nil: none but equal ones are
}

// TargetName is a name at the target, and the view's key that gives it.
type TargetName struct{ Key, Name string }

// Sink is one place where views are kept.
type Sink struct {
	Name     string
	Type     string        // a SinkType's name
	Timeout  time.Duration // after how long without an answer a connection is lost; what a MySQL DSN says of it wins
	Settings any           // as the type's Read returned them

	kind SinkType
}

// Opening is what a sink is made of.
type Opening struct {
	Sink    *Sink
	Views   []*replicator.View // all views of the sink
	Tables  []replicator.Table // of the source
	Sources []string           // the names of all sources that feed the views; none if these are partitions of topics
	InPlace bool               // each source feeds a part of each view, so that none can be rebuilt beside it
	Log     *slog.Logger

	// Partitions asks for the names of the partitions of all topics that feed the views; nil if an entity can't move
	// between them.
	Partitions func(ctx context.Context) ([]string, error)

	// Feeds reports whether a source of that name feeds the views; one that does not may have done so before.
	Feeds func(source string) bool

	// Columns are the columns of a table of a source's, as it has them now; of any source if none is named.
	Columns func(ctx context.Context, source, table string) ([]Column, error)

	// Samples sums up what the fields of a view are in sampled rows of a source's, in the order of View.Fields; of any
	// source if none is named. Of columns (ColumnOf) it says only what is in JSON.
	Samples func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error)

	// Names makes what knows the names that the keys of the views make.
	Names func() (Names, error)

	// Entities makes what renders a view's Key and Member of a cell alone, for views whose templates are made of the
	// table's key.
	Entities func() (func(v *replicator.View, c replicator.Cell) (key, member string, err error), error)
}

// Column is a column of a source's table as information_schema shows it.
type Column struct {
	Name, Type         string // "id", "binary(16)"
	Charset, Collation string // of text, ENUM and SET; else ""
}

// Names knows the names that the keys of views make.
type Names interface {
	// Has reports whether the sink has a view of that name in the configuration.
	Has(view string) bool

	// Begins is what all names of a view begin with; "" if that is nothing in particular.
	Begins(v *replicator.View) string

	// Entities says whether a name can be one that the view's key makes, and, of a view by entities, whose it is then, in
	// the form of replicator.Key.String.
	Entities(v *replicator.View, name string) (entities []string, ok bool)

	// Makes reports whether the view's key can make a name. It says no of a key that begins with a value.
	Makes(v *replicator.View, name string) bool
}

// Open makes the sink, of what else it is made of.
func (s *Sink) Open(o Opening) (replicator.Sink, error) {
	o.Sink = s
	return s.kind.Open(o)
}

// Login is who the program is to a sink, and how it knows the sink.
type Login struct {
	Username string
	Password Secret
	TLS      TLS
}

// Login reads username, password, password_file, ca_cert, cert, cert_key and server_name.
func (s *Section) Login() Login {
	login := Login{
		Username: s.Name("username", "", `"replicator"`),
		Password: s.Secret("password", `"${PASSWORD}"`),
		TLS: TLS{
			CACert:     s.existing("ca_cert"),
			Cert:       s.existing("cert"),
			Key:        s.existing("cert_key"),
			ServerName: s.Name("server_name", "", `"search.internal"`),
		},
	}
	if (login.TLS.Cert == "") != (login.TLS.Key == "") {
		s.Problem("cert", "cert and cert_key belong together: give both or none")
	}
	return login
}

// existing reads the path of a file that must be there.
func (s *Section) existing(key string) string {
	path := s.Name(key, "", `"/etc/replicator/`+key+`.pem"`)
	if path == "" {
		return ""
	}
	if _, err := s.ReadFile(path); err != nil && !s.l.leavesOut(under(s.path, key)) {
		s.Problem(key, "can't be read: %v", err)
	}
	return s.l.resolve(path)
}
