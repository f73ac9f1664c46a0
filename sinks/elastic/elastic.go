package elastic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
	"replicator/config"
	"replicator/internal/seen"
	"replicator/sinks/judge"
)

// Config says where the Elasticsearch cluster is and how to log in.
type Config struct {
	Name      string
	Addresses []string // http://HOST:PORT or https://HOST:PORT, of one or several nodes of one cluster

	Username, Password string
	APIKey             string // base64 as Elasticsearch shows it; instead of user and password
	TLS                config.TLS

	// Tables are the source's tables. They tell whether several cells may share a document.
	Tables []replicator.Table

	// Views are all views of the sink. Marks and Forget ignore all other indexes, because other replicators may use the
	// cluster. nil: Marks and Forget include everything that this package keeps in the cluster.
	Views []*replicator.View

	// Sources are the names of all sources that feed the views. A view that is filled again shows its old index until
	// every source has filled the new index. If Sources is empty, only sources that have opened the new index count.
	Sources []string

	// Partitions returns the names of the partitions of all Kafka topics that feed the views. nil if the rows of a key
	// never move between partitions.
	Partitions func(ctx context.Context) ([]string, error)

	// DocumentID makes the id of a cell's document from the template v.Key, and its routing from v.Member. Both depend
	// only on the cell's key, so deleted cells have them, too. nil: the id is the key's text, and views must have
	// neither template.
	DocumentID func(v *replicator.View, c replicator.Cell) (id, routing string, err error)

	// Columns and Samples describe a view's fields at the source (see config.Opening). The sink derives the mapping
	// from them if the configuration has no mapping. nil: nothing is known about the fields.
	Columns func(ctx context.Context, source, table string) ([]config.Column, error)
	Samples func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error)

	// SearchTime is how long to keep an index after its alias has moved away. A search that resolved the alias before
	// that may take this long. 0: the constant SearchTime.
	SearchTime time.Duration

	Timeout time.Duration // how long to wait for the first byte of an answer; 0: the constant Timeout

	Logger *slog.Logger // nil: nothing is logged
}

// Sink keeps document views in one cluster. It is safe for concurrent use.
type Sink struct {
	name    string
	config  Config
	log     *slog.Logger
	client  *client
	tables  map[string]replicator.Table
	retired retired
}

var (
	_ replicator.Sink    = (*Sink)(nil)
	_ replicator.Sourced = (*Sink)(nil)
)

// New makes a sink, without connecting. It returns an error if an address or a certificate file is invalid.
func New(c Config) (*Sink, error) {
	cl, err := newClient(c)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", c.Name, err)
	}
	c.SearchTime = cmp.Or(c.SearchTime, SearchTime)
	s := &Sink{name: c.Name, config: c, log: c.Logger, client: cl, tables: map[string]replicator.Table{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, t := range c.Tables {
		s.tables[t.Name] = t
	}
	return s, nil
}

// Open implements replicator.Sink. It finds or creates the index of each view, and adds the source to the view's marks.
func (s *Sink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	others, err := judge.Sources{Shards: s.config.Sources, Partitions: s.config.Partitions}.Others(ctx, source)
	if err != nil {
		return nil, err
	}
	t := &Target{sink: s, source: source, nearby: others.Names(), views: slices.Clone(views), memory: newMemory()}
	var refused []error
	for i, v := range views {
		k, err := s.keep(v, source)
		if err == nil {
			k.place = i
			err = s.openGeneration(ctx, k, source)
		}
		if err == nil {
			err = s.mendAlias(ctx, k)
		}
		if err != nil {
			refused = append(refused, inView(v, err))
		}
		t.kept = append(t.kept, k)
	}
	if err := errors.Join(refused...); err != nil {
		return nil, err
	}
	if err := t.register(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// metadataFields are field names that Elasticsearch 8 does not accept in documents.
var metadataFields = []string{"_id", "_index", "_source", "_version", "_routing", "_field_names", "_ignored",
	"_ignored_source", "_seq_no", "_primary_term", "_doc_count", "_tier", "_nested_path"}

// keep returns the writer (keeper) of a view, or an error if the sink can't keep the view.
func (s *Sink) keep(v *replicator.View, source string) (*keeper, error) {
	switch {
	case v.Kind != "document":
		return nil, replicator.Fatal(fmt.Errorf("an Elasticsearch sink can't keep views of kind %q, only of kind "+
			"document", v.Kind))
	case settingsOf(v).Index == "":
		return nil, replicator.Fatal(fmt.Errorf("the view does not name an index"))
	case s.config.DocumentID == nil && (v.Key != "" || v.Member != ""):
		return nil, replicator.Fatal(errors.New("the view has a template for ids, but Config.DocumentID is nil"))
	}
	k := &keeper{view: v, alias: settingsOf(v).Index, documentID: s.config.DocumentID}
	k.merged = source != "" || judge.Shares(v, s.hasColumn) // several shards may have a cell with the same key
	for _, f := range v.Fields {
		if f.Name == stateField {
			return nil, replicator.Fatal(fmt.Errorf("its field %s has the name of the program's own state field. "+
				"Rename it", f.Name))
		}
		if slices.Contains(metadataFields, f.Name) {
			return nil, replicator.Fatal(fmt.Errorf("its field %s has the name of an Elasticsearch metadata field, "+
				"which a document can't have. Rename it, as in fields = { %s = "+
				"%q }", f.Name, strings.Trim(f.Name, "_"), f.Path))
		}
		k.names = append(k.names, append(replicator.AppendJSON(nil, f.Name), ':'))
	}
	return k, nil
}

// cell returns the source and the cell whose state a document holds in a slot. ok is false if a user has changed the
// slot's name or key.
func (s *Sink) cell(of *slot) (source string, c replicator.Cell, ok bool) {
	source, c, ok = cellOf(of.name, of.key)
	values, err := c.Key.Values()
	table, known := s.tables[c.Table]
	return source, c, ok && err == nil && (!known || len(values) == len(table.Key))
}

func (s *Sink) hasColumn(table string) bool { return s.tables[table].Column != "" }

// ours lists the indexes of the sink's views. It requests each view's indexes separately, because one blocked index
// (index.blocks.metadata) fails a whole request. unreadable holds a Mark with the error for each view whose request
// fails.
func (s *Sink) ours(ctx context.Context) (all []*generation, unreadable []replicator.Mark, err error) {
	if s.config.Views == nil {
		all, err = s.generations(ctx, "*")
		return all, nil, err
	}
	for _, v := range s.config.Views {
		some, err := s.own(ctx, v)
		// `inView` would add the view's name to the error, but the Mark already has it.
		if err = ofView(v, err); replicator.IsOfViews(err) {
			unreadable = append(unreadable, replicator.Mark{View: v.Name, Err: err})
		} else if err != nil {
			return nil, nil, err
		}
		all = append(all, some...)
	}
	return all, unreadable, nil
}

func (s *Sink) own(ctx context.Context, v *replicator.View) ([]*generation, error) {
	all, err := s.generations(ctx, settingsOf(v).Index)
	return slices.DeleteFunc(all, func(g *generation) bool {
		return strings.TrimSuffix(g.view, replicator.ShadowSuffix) != v.Name
	}), err
}

// Marks implements replicator.Sink. It reads the progress document of each view's newest index.
func (s *Sink) Marks(ctx context.Context, source string) (marks []replicator.Mark, err error) {
	unreadable, err := s.eachRegistry(ctx, func(g *generation, r registry, err error) {
		m, ok := r[source]
		mark := replicator.Mark{View: g.view, Fingerprint: m.fingerprint(g)}
		if mark.Standing = m.Standing(); err != nil {
			mark.Err = fmt.Errorf("index %s: %w", g.index, err)
		}
		if ok || err != nil {
			marks = append(marks, mark)
		}
	})
	if err != nil {
		return nil, err
	}
	return append(unreadable, marks...), nil
}

// Sources implements replicator.Sourced. It omits sources whose marks can't be read.
func (s *Sink) Sources(ctx context.Context) (sources []string, err error) {
	known := registry{}
	_, err = s.eachRegistry(ctx, func(_ *generation, r registry, _ error) { maps.Copy(known, r) })
	return slices.Collect(maps.Keys(known)), err
}

// eachRegistry calls do with the progress document (registry) of each view, or with the error of reading it. For each
// view whose indexes can't be listed, it returns a Mark with the error.
func (s *Sink) eachRegistry(ctx context.Context, do func(*generation, registry, error)) ([]replicator.Mark, error) {
	all, unreadable, err := s.ours(ctx)
	if err != nil {
		return nil, err
	}
	var documents []*document
	var of []*generation
	for _, g := range newest(all) {
		if !g.forgotten && g.write != "" && g.source.keeps(stateField) {
			documents = append(documents, registryOf(g))
			of = append(of, g)
		}
	}
	if err := s.client.readEach(ctx, documents); err != nil {
		return nil, fmt.Errorf("reading marks: %w", err)
	}
	for i, d := range documents {
		r, err := parseRegistry(d)
		if f := asFailure(err); f != nil && f.isGone() {
			continue // the index was removed after it was listed
		} else if f != nil && f.ofCluster() {
			return nil, fmt.Errorf("reading marks: %w", err)
		}
		do(of[i], r, err)
	}
	return unreadable, nil
}

// Forget implements replicator.Sink. The documents hold the states, so the view's next Open makes a new index. The
// alias shows the old index until the new one is filled.
func (s *Sink) Forget(ctx context.Context, view string) error {
	all, unreadable, err := s.ours(ctx)
	if i := slices.IndexFunc(unreadable, func(m replicator.Mark) bool { return m.View == view }); i >= 0 {
		err = fmt.Errorf("forgetting view %s: %w", view, unreadable[i].Err)
	}
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.view != view || g.forgotten {
			continue
		}
		g.forgotten = true
		if err := s.client.call(ctx, g.putMeta(), nil); err != nil {
			return fmt.Errorf("forgetting view %s in index %s: %w", view, g.index, err)
		}
		marks := esapi.DeleteRequest{Index: g.index, DocumentID: registryID, Routing: g.registryRouting()}
		if err := s.client.call(ctx, marks, nil); err != nil && !isMissing(err) {
			return fmt.Errorf("forgetting the marks of view %s: %w", view, err)
		}
	}
	return nil
}

// Close implements replicator.Sink. The caller has closed all targets. Close waits until indexes that were just
// replaced may be removed (Config.SearchTime), and removes them.
func (s *Sink) Close() error {
	s.awaitRetired()
	s.client.close()
	return nil
}
