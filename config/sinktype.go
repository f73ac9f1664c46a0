package config

import (
	"context"
	"log/slog"
	"time"

	"replicator"
	"replicator/internal/seen"
)

// SinkType is a type of sink: the settings of such a sink and of its views, and how to make one. Each sink's package
// defines its own.
type SinkType struct {
	Name  string   // as the file has it: type = "NAME"
	Keys  []string // of [sinks.*], besides type and timeout
	Kinds []Kind   // the kinds of views that it keeps

	// Read reads the keys of [sinks.*] and returns Sink.Settings. Secrets in it must have the type Secret.
	Read func(s *Section) any

	// ReadView reads the keys that a view of this type has besides the common ones. It completes s.View: Key, Member,
	// Sum, Settings, and Fields unless the key fields gives them.
	ReadView func(s *ViewSection) Target

	// Open makes a sink. It does not connect yet.
	Open func(o Opening) (replicator.Sink, error)
}

// Kind lists the keys that a kind of view has besides the common ones.
type Kind struct {
	Name string
	Need []Key    // what it must be told
	May  []string // what it may be told

	Not map[string]string // keys of other kinds that it can't have, and the reasons
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

// Target is the place where a view is kept.
type Target struct {
	Key    string   // the view's key that names the place
	Places []string // comparable among the views of the type: two must not share one. None: the place is unknown

	// Template makes the view's keys in its places. Views may share a place if no template can make another one's key.
	// A view without a template has its places for itself.
	Template string

	Names []TargetName        // of columns and the like, which must be unique; nil: those of the view's fields
	Fold  func(string) string // equal for names that the target treats as equal; nil: only identical names are
}

// TargetName is a name at the target, and the view's key that gives it.
type TargetName struct{ Key, Name string }

// Sink is one place where views are kept.
type Sink struct {
	Name     string
	Type     string        // a SinkType's name
	Timeout  time.Duration // how long a connection may go without an answer before it counts as lost; a MySQL DSN's timeout takes precedence
	Settings any           // as the type's Read returned them

	kind SinkType
}

// Opening is everything that a sink is made from.
type Opening struct {
	Sink    *Sink
	Views   []*replicator.View // all views of the sink
	Tables  []replicator.Table // of the source
	Sources []string           // the names of all sources that feed the views; none if these are partitions of topics
	InPlace bool               // each source feeds a part of each view, so none can be rebuilt beside it
	Log     *slog.Logger

	// Partitions returns the names of the partitions of all topics that feed the views; nil if an entity can't move
	// between them.
	Partitions func(ctx context.Context) ([]string, error)

	// Feeds reports whether a source of that name feeds the views. Another one may have fed them before.
	Feeds func(source string) bool

	// Columns returns the present columns of a source's table; of any source if none is named.
	Columns func(ctx context.Context, source, table string) ([]Column, error)

	// Samples summarizes the fields of a view in sampled rows of a source, in the order of View.Fields; of any source
	// if none is named. For columns (ColumnOf) it covers only JSON contents.
	Samples func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error)

	// Names makes the Names of the views' keys.
	Names func() (Names, error)

	// Entities returns a function that renders a view's Key and Member from a cell alone, for views whose templates are
	// made of the table's key.
	Entities func() (func(v *replicator.View, c replicator.Cell) (key, member string, err error), error)
}

// Column is a column of a source's table as information_schema shows it.
type Column struct {
	Name, Type         string // "id", "binary(16)"
	Charset, Collation string // of text, ENUM and SET; else ""
}

// Names answers questions about the names that the views' keys make.
type Names interface {
	// Has reports whether the sink has a view of that name in the configuration.
	Has(view string) bool

	// Begins is the common prefix of all names of a view; "" if there is none.
	Begins(v *replicator.View) string

	// Entities reports whether the view's key template can produce name. For a view with one name per entity, it also
	// returns the possible entities, in the form of replicator.Key.String.
	Entities(v *replicator.View, name string) (entities []string, ok bool)

	// Makes reports whether the view's key template can produce name. It is false for a template that begins with a
	// value.
	Makes(v *replicator.View, name string) bool
}

// Open makes the sink.
func (s *Sink) Open(o Opening) (replicator.Sink, error) {
	o.Sink = s
	return s.kind.Open(o)
}

// Login is how the program identifies itself to a sink, and how it verifies the sink.
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

// existing reads the path of a file that must exist.
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
