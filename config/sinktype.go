package config

import (
	"context"
	"log/slog"
	"time"

	"replicator"
	"replicator/internal/seen"
)

// SinkType is a type of sink: the settings of its sinks and views, and how to make a sink. Each sink's package defines
// one.
type SinkType struct {
	Name  string   // the type's name in the file: type = "NAME"
	Keys  []string // keys of [sinks.*], besides type and timeout
	Kinds []Kind   // the kinds of views that such a sink supports

	// Read reads the keys of [sinks.*] and returns Sink.Settings. Secrets in the settings must have the type Secret.
	Read func(s *Section) any

	// ReadView reads the keys that only views of this type of sink have. It sets Key, Member, Sum and Settings of
	// s.View. It also sets Fields if this kind of view has no setting `fields`.
	ReadView func(s *ViewSection) Target

	// Open makes a sink, without connecting to its servers.
	Open func(o Opening) (replicator.Sink, error)
}

// Kind lists the keys of a kind of view, except the keys that all views have.
type Kind struct {
	Name string
	Need []Key    // required keys
	May  []string // optional keys

	Not map[string]string // by the name of a setting that other kinds of views have: why this kind can't have it
}

// Key is a key of a section, with an example of its value as TOML.
type Key struct{ Name, Example string }

// Examples in error messages, for keys that several types of sink have.
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

// Target says in which places (tables, indexes or databases) a view is kept.
type Target struct {
	Key    string   // the view's setting that the operator must change if another view is in the same place
	Places []string // names of the tables, indexes or databases that hold the view; empty: not checked

	// Template is the template of the keys of the view's entries. Two views may be in the same table, index or database
	// if both have templates that can't make the same key. Without a template, a view must be there alone.
	Template string

	Names []TargetName        // names that must be distinct, such as the view's columns; nil: the names of its fields
	Fold  func(string) string // returns the same text for names that the target treats as equal; nil: all names differ
}

// TargetName is a name that a view uses in its sink, such as a column's name. Key is the view's setting that gives the
// name, such as "fields".
type TargetName struct{ Key, Name string }

// Sink has the settings of one sink, from the section [sinks.NAME] of the configuration file.
type Sink struct {
	Name     string
	Type     string
	Timeout  time.Duration // silence after which a connection counts as lost; a MySQL DSN's timeout takes precedence
	Settings any           // the type's own settings, as SinkType.Read returned them

	kind SinkType
}

// Opening is what a SinkType gets to open a sink: the sink's settings, its views, and functions that ask the sources.
type Opening struct {
	Sink    *Sink
	Views   []*replicator.View
	Tables  []replicator.Table
	Sources []string // names of all sources that feed the views; empty if they are partitions of Kafka topics
	InPlace bool     // each source feeds only a part of each view, so a rebuild must not fill a copy of the view
	Log     *slog.Logger

	// Partitions returns the names of the partitions of all topics that feed the views. It is nil if the rows of a key
	// can't move from one partition to another.
	Partitions func(ctx context.Context) ([]string, error)

	// Feeds reports whether the configuration still has the named source, so that it feeds Views. Sources that were
	// removed from the configuration may have fed them before.
	Feeds func(source string) bool

	// Columns returns the current columns of a source's table. If source is "", it asks any source.
	Columns func(ctx context.Context, source, table string) ([]Column, error)

	// Samples evaluates a view's fields for sample rows of a source (any source if source is ""). It summarizes each
	// field's values, in the order of View.Fields.
	Samples func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error)

	// Names returns a recognizer of the Redis keys that the key templates of Views make.
	Names func() (Names, error)

	// Entities returns a function that makes the Key and Member of a view's entry from the row's key alone.
	// The function works only for views whose templates use only the table's key.
	Entities func() (func(v *replicator.View, c replicator.Cell) (key, member string, err error), error)
}

// Column is a column of a source's table, as information_schema describes it.
type Column struct {
	Name, Type         string // such as "id" and "binary(16)"
	Charset, Collation string // set for text, ENUM and SET; otherwise ""
}

// Names recognizes the Redis keys that the key templates of views make.
type Names interface {
	// Has reports whether the sink has a configured view of that name.
	Has(view string) bool

	// Begins returns the text that all Redis keys of a view start with. It returns "" if they have no common start.
	Begins(v *replicator.View) string

	// Entities reports whether the view's key template can make the Redis key `name`. For a hash or JSON view, it also
	// returns the keys of the rows that `name` may belong to, in the form of replicator.Key.String.
	Entities(v *replicator.View, name string) (entities []string, ok bool)

	// Makes reports whether the view's key template can make the Redis key `name`, which replicator wrote. Entities
	// refuses a key whose last value contains a ":", because the application may have written that key. Makes accepts
	// it. Makes returns false for a template that starts with a value, because such a template fits any key.
	Makes(v *replicator.View, name string) bool
}

// Open makes the sink.
func (s *Sink) Open(o Opening) (replicator.Sink, error) {
	o.Sink = s
	return s.kind.Open(o)
}

// Login is how replicator identifies itself to a sink, and how it verifies the sink.
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

// existing reads a path, and checks that the file exists.
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
