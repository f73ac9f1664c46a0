package mysql

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"replicator"
)

// design returns the CREATE TABLE of a view's table. It fails if that table could not hold the view.
func (s *Sink) design(ctx context.Context, v *replicator.View, from *origins) (string, error) {
	columns, err := s.declare(ctx, v, from, nil)
	if err != nil {
		return "", err
	}
	var problems []string
	for _, c := range columns {
		typ := strings.ToLower(firstWord.FindString(c.typ))
		if slices.Contains(unconvertible, typ) {
			problems = append(problems, fmt.Sprintf("its column %s would have a type that the program can't write, %s",
				c.name, typ))
		}
		if strings.EqualFold(c.name, settingsOf(v).ShardOn) && !slices.Contains(shardable, typ) {
			problems = append(problems, fmt.Sprintf("its shard_on, %s, would be %s: only integers, texts and bytes "+
				"can select a shard", c.name, typ))
		}
	}
	if len(problems) > 0 {
		return "", replicator.Fatal(fmt.Errorf("table %s can't be created for the view: %s. Leave these columns out, "+
			"or give them another type with `types`",
			settingsOf(v).Table, strings.Join(problems, "; ")))
	}
	return s.ddl(ctx, v, columns)
}

var firstWord = regexp.MustCompile("[a-zA-Z0-9]+")

// unconvertible are possible types of a source's column that have no converter.
var unconvertible = []string{"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
	"multipolygon", "geometrycollection",
	"geomcollection", "vector"}

// uncreatable returns an error if the server would refuse a CREATE TABLE. It tries the statement with a temporary
// table, which no other session sees. If the user may not create temporary tables, it checks only the grants.
func (s *Sink) uncreatable(ctx context.Context, v *replicator.View, statement string) error {
	doing := creating(v)
	if !s.mayCreate(ctx) {
		return replicator.Fatal(curable{fmt.Errorf("%s: the user lacks CREATE on its database", doing),
			s.grant(ctx, s.database, "CREATE")})
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return classify(err, doing)
	}
	defer conn.Close()
	_, err = conn.ExecContext(ctx, strings.Replace(statement, "CREATE TABLE ", "CREATE TEMPORARY TABLE ", 1))
	switch {
	case is(err, 1044, 1142, 1227): // the user lacks CREATE TEMPORARY TABLES, which is a separate right
		return nil
	case err != nil:
		return uncreated(v, err)
	}
	_, err = conn.ExecContext(ctx, "DROP TEMPORARY TABLE "+s.tableName(settingsOf(v).Table))
	return classify(err, doing)
}

func creating(v *replicator.View) string {
	return fmt.Sprintf("creating table %s from its types", settingsOf(v).Table)
}

// uncreated explains why a server refused to create a view's table. It includes the server's message, which can't quote
// a row's value, because a CREATE TABLE contains none.
func uncreated(v *replicator.View, err error) error {
	refused := classify(err, creating(v))
	var e *mysql.MySQLError
	if errors.As(err, &e) && !faultOf(e).plain {
		refused = fmt.Errorf("%w: %s", refused, strings.Join(strings.Fields(e.Message), " "))
	}
	return replicator.Fatal(refused)
}
