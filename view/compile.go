package view

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"replicator"
)

// Decoder decodes a fixed list of members of one table's bodies. It is safe for concurrent use.
type Decoder interface {
	// Decode stores the members of one body in `values`, in the order of the Decoder's list and with the types of
	// Entry.Fields. A value is nil if the member is missing or null. Texts may be parts of body, so the caller must not
	// write to body afterwards. An error says what is wrong with the body and never quotes it.
	Decode(body []byte, values []any) error
}

// Codecs provides the decoders that views need for bodies.
type Codecs struct {
	// Body returns a decoder for the named members of a table's bodies.
	Body func(table string, names []string) (Decoder, error)
	// JSON decodes one JSON value, from a JSON column that is not the body.
	JSON func(text []byte) (any, error)
	// Document returns a function that decodes whole bodies of a table. The function is nil if the bodies are JSON text,
	// which needs no decoding.
	Document func(table string) (func(body []byte) (replicator.Object, error), error)
}

// plan has the compiled views that are made from one table's rows of one kind (Cell.Column).
type plan struct {
	feeds   []*feed
	decoder Decoder // decodes the body's members; nil if no view needs them
	json    func([]byte) (any, error)
	whole   func([]byte) (replicator.Object, error) // decodes bodies for views of whole rows; nil if no view needs that
	names   []string
	columns []string
	joins   []*joinPlan
	fields  int // the number of fields in one entry of each view, added up
}

type feed struct {
	view   int // index of the view in the views that Compile got
	name   string
	where  *expression
	fields []leaf
	sum    bool // the view is a counter or a ranking: the last of `fields` is the amount to add
	key    *template
	member *template
	whole  bool // the entry is the whole row
	joins  bool
	split  bool // a missing value means no entry, and a list makes several entries
	loops  []loop
}

// KeyError is an error in one setting of a view's definition.
type KeyError struct {
	View string
	Key  string // the setting's key in the configuration, such as "where" or "fields.email"
	Err  error
}

func (e *KeyError) Error() string { return e.Key + ": " + e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

func (f *feed) at(key string, err error) error { return &KeyError{View: f.name, Key: key, Err: err} }

func compileFeed(b *binder, v *replicator.View, place int) (*feed, error) {
	f := &feed{view: place, name: v.ShownAs(), joins: len(v.Joins) > 0}
	b.merged = slices.ContainsFunc(v.From, func(f replicator.Feed) bool { return f.Table != b.table.Name })
	if err := b.bindJoins(f, v); err != nil {
		return nil, fmt.Errorf("view %s: %w", f.name, err)
	}
	c := &leafCompiler{binder: b, ids: map[string]int{}}
	var err error
	switch {
	case v.OfEntities():
		err = f.compileEntity(c, v)
	case slices.Contains([]string{"index", "counter", "ranking"}, v.Kind):
		f.split, c.split = true, true
		err = f.compileEntries(c, v)
	case v.Kind == "changelog":
		if f.joins {
			err = f.at("join", errors.New("a changelog holds rows as they are, without joins. Remove the join"))
			break
		}
		f.whole = true
		b.everyColumn()
	default:
		kinds := []string{"index", "row", "counter", "hash", "json", "ranking", "document", "changelog"}
		err = fmt.Errorf("kind: there is no kind %q%s", v.Kind, didYouMean(v.Kind, kinds))
	}
	if err == nil && v.Where != "" {
		if f.where, err = compileBool(v.Where, b); err != nil {
			err = f.at("where", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", f.name, err)
	}
	f.loops = c.loops
	return f, nil
}

func compileBool(text string, b *binder) (*expression, error) {
	return compileExpression(text, reflect.Bool, b.resolve)
}

// allColumns in Table.Columns means every column.
const allColumns = "*"

// compileEntity compiles a view to which each cell contributes one entry (see replicator.View.OfEntities).
func (f *feed) compileEntity(c *leafCompiler, v *replicator.View) (err error) {
	if v.Key == "" && (v.Kind == "hash" || v.Kind == "json") {
		return fmt.Errorf("key: a %s needs a key. Set key to a template such "+
			"as %q", v.Kind, v.Name+":{"+c.table.Key[0]+"}")
	}
	if v.Key != "" {
		if f.key, err = c.keyTemplate(v.Key); err != nil {
			return f.at("key", err)
		}
	}
	if v.Member != "" {
		if f.member, err = c.entityTemplate(v.Member, "routing"); err != nil {
			return f.at("routing", err)
		}
	}
	return f.compileFields(c, v.Fields)
}

// compileEntries compiles a view whose number of entries depends on the row's values.
func (f *feed) compileEntries(c *leafCompiler, v *replicator.View) (err error) {
	fields := v.Fields
	if f.sum = v.Kind != "index"; f.sum {
		if len(fields) == 0 {
			fields = []replicator.Field{{Name: "sum", Path: v.Sum}}
		}
		if last := fields[len(fields)-1]; last.Path != v.Sum && (v.Sum != "" || last.Path != countCells) {
			return fmt.Errorf("fields.%s: the last field of a %s is its amount, so the path must be %q, not %q",
				last.Name, v.Kind, cmp.Or(v.Sum, countCells), last.Path)
		}
	} else if len(fields) == 0 && v.Key == "" {
		return fmt.Errorf("fields: an index needs a field, or a key template with the property to search by")
	}
	if v.Key == "" && v.Kind == "ranking" {
		return fmt.Errorf("key: a ranking needs a key, the name of its sorted set")
	}
	if v.Key != "" {
		if f.key, err = c.template(v.Key); err != nil {
			return f.at("key", err)
		}
	}
	if v.Member != "" {
		if f.member, err = c.template(v.Member); err != nil {
			return f.at("member", err)
		}
	}
	if !f.sum {
		return f.compileFields(c, fields)
	}
	if err = f.compileFields(c, fields[:len(fields)-1]); err != nil {
		return err
	}
	amount := leaf{loop: -1}
	if v.Sum != "" {
		if amount, err = (&leafCompiler{binder: c.binder}).compile(v.Sum); err != nil {
			return f.at("sum", err)
		}
		if amount.list {
			return fmt.Errorf("sum: a cell has only one amount. Write an expression over the list, such as " +
				"\"=sum(lines, .qty)\"")
		}
	}
	f.fields = append(f.fields, amount)
	return nil
}

// countCells is the path of a counter's or ranking's amount if the view has no sum. Each row adds 1.
const countCells = "=1"

func (f *feed) compileFields(c *leafCompiler, fields []replicator.Field) error {
	for _, field := range fields {
		l, err := c.compile(field.Path)
		if err != nil {
			return f.at("fields."+field.Name, err)
		}
		f.fields = append(f.fields, l)
	}
	return nil
}

// Compile compiles views into one Evaluator. In the Evaluator's results, Value.View is an index in `views`. An error
// names the view and the field, and says what to do.
func Compile(views []*replicator.View, tables []replicator.Table, codecs Codecs) (*Evaluator, error) {
	e := &Evaluator{tables: map[string]*tablePlans{}}
	for _, v := range views {
		if len(v.From) == 0 {
			return nil, fmt.Errorf("view %s: from: does not name a table", v.Name)
		}
		for _, from := range v.From {
			t, err := findTable(v, from.Table, tables)
			if err != nil {
				return nil, err
			}
			p := e.tables[t.Name]
			if p == nil {
				p = &tablePlans{columns: map[string]*plan{}}
				e.tables[t.Name] = p
				if p.others, err = compilePlan(views, t, tables, replicator.Cell{Table: t.Name}, codecs); err != nil {
					return nil, err
				}
			}
			if from.Column == "" || p.columns[from.Column] != nil {
				continue
			}
			if p.columns[from.Column], err = compilePlan(views, t, tables,
				replicator.Cell{Table: t.Name, Column: from.Column}, codecs); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

func findTable(v *replicator.View, name string, tables []replicator.Table) (*replicator.Table, error) {
	var names []string
	for i := range tables {
		if tables[i].Name == name {
			return &tables[i], nil
		}
		names = append(names, tables[i].Name)
	}
	return nil, fmt.Errorf("view %s: from: there is no table %s%s", v.Name, name, didYouMean(name, names))
}

// compilePlan compiles the views that rows with this Cell.Table and Cell.Column contribute to. Cell.Key is not used.
func compilePlan(views []*replicator.View, t *replicator.Table, tables []replicator.Table, cell replicator.Cell,
	codecs Codecs) (*plan, error) {
	b := &binder{table: t, tables: tables}
	p := &plan{json: codecs.JSON}
	for i, v := range views {
		if !v.Feeds(cell) {
			continue
		}
		f, err := compileFeed(b, v, i)
		if err != nil {
			return nil, err
		}
		p.feeds = append(p.feeds, f)
		p.fields += len(f.fields)
	}
	for _, j := range b.joins {
		if err := j.finish(codecs); err != nil {
			return nil, err
		}
	}
	p.joins = b.joins
	return p, p.finish(b, slices.ContainsFunc(p.feeds, func(f *feed) bool { return f.whole }), codecs)
}

// finish completes a plan: it sets the members and columns that the paths of the plan's views need, and creates the
// decoders of the bodies.
func (p *plan) finish(b *binder, whole bool, codecs Codecs) (err error) {
	t := b.table
	p.names, p.columns = b.names, b.columns
	if t.Body != "" && whole {
		if p.whole, err = codecs.Document(t.Name); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	if len(p.names) > 0 {
		if p.decoder, err = codecs.Body(t.Name, p.names); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

// Columns returns the values of Table.Columns and Table.Optional for a table: the columns that rows must have for the
// views, and the columns that views use only if the table has them. Both are sorted. Columns that the views' joins read
// are included. The columns with the roles `key` and `column` are left out.
func Columns(views []*replicator.View, tables []replicator.Table, name string) (needed, optional []string, err error) {
	var columns []string
	add := func(b *binder) {
		if b.table.Name != name {
			return
		}
		for _, column := range b.needed {
			place(&needed, column)
		}
		for _, column := range b.columns {
			place(&columns, column)
		}
	}
	for i, v := range views {
		from := name
		if !slices.ContainsFunc(v.From, func(f replicator.Feed) bool { return f.Table == name }) {
			if !v.Joined(name) || len(v.From) == 0 {
				continue
			}
			from = v.From[0].Table
		}
		t, err := findTable(v, from, tables)
		if err != nil {
			return nil, nil, err
		}
		b := &binder{table: t, tables: tables}
		if _, err := compileFeed(b, v, i); err != nil {
			return nil, nil, err
		}
		add(b)
		for _, j := range b.joins {
			add(j.binder)
		}
	}
	if slices.Contains(needed, allColumns) {
		return []string{allColumns}, nil, nil
	}
	for _, column := range columns {
		if !slices.Contains(needed, column) {
			optional = append(optional, column)
		}
	}
	slices.Sort(needed)
	slices.Sort(optional)
	return needed, optional, nil
}
