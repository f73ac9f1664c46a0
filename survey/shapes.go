package survey

import (
	"slices"
	"strings"
)

// Some common kinds of tables can't be recognized by a unique key. In a log, each row is a version of an entity, and
// its AUTO_INCREMENT number is the version. In a table of attributes, each row is the value of one attribute of an
// entity.

// entityNames lists common names of the column that identifies an event's entity.
var entityNames = []string{"entity_id", "entity_uuid", "entity", "entity_key", "aggregate_id",
	"aggregateid", "aggregate_uuid",
	"aggregate", "stream_id", "stream", "stream_name", "object_id", "item_id", "auditable_id",
	"trackable_id", "subject_id",
	"record_id", "resource_id", "model_id", "row_id"}

// kindNames lists common names of the column that contains the kind of event.
var kindNames = []string{"event_type", "type", "event_name", "kind", "event", "name", "topic", "action"}

// logWords are words in the names of tables whose rows never change.
var logWords = []string{"event", "log", "history", "version", "audit", "journal", "outbox", "revision"}

// changes lists words for what happened to an entity. A column that has only these words does not get the role
// `column`, because it does not say what kind of data a row has.
var changes = []string{"create", "created", "insert", "inserted", "update", "updated", "destroy", "destroyed", "delete",
	"deleted", "c", "u", "d", "i"}

// log recognizes a table of events or of row versions, and finds its roles. The columns of the entity become the `key`,
// the AUTO_INCREMENT number the `version`, and a column with the kind of event the `column`. It returns false for any
// other table.
func (r *roles) log(t *Table) bool {
	if len(t.Primary) != 1 || !t.col(t.Primary[0]).Auto || !t.col(t.Primary[0]).integer() {
		return false
	}
	key := t.entity()
	if key == nil || slices.ContainsFunc(t.Unique, func(u []string) bool { return subset(u, key) }) {
		return false
	}
	for _, u := range t.Unique { // in a unique key (tenant, id, number), tenant and id identify the entity
		if last := len(u) - 1; last > 0 && subset(key, u[:last]) && t.col(u[last]).integer() {
			key = u[:last]
			break
		}
	}
	kind := ""
	if r.body != nil {
		kind = t.eventColumn(key)
	}
	named := slices.ContainsFunc(logWords, func(w string) bool { return strings.Contains(strings.ToLower(t.Name), w) })
	if !named && (r.body == nil || kind == "" && !t.repeats(key)) {
		return false
	}
	r.version, r.column, r.key, r.isLog = t.Primary[0], kind, key, true
	return true
}

// entity returns the columns of a log that identify the entity of an event: the column of the entity's ID, preceded by
// the column of the entity's type if there is one. It returns nil if the log has no such columns.
func (t *Table) entity() []string {
	for _, name := range entityNames {
		c := t.col(name)
		if c == nil || c.Nullable || !c.identifies() || has(t.Primary, c.Name) {
			continue
		}
		for _, stem := range []string{"_id", "id", "_uuid"} {
			if before, ok := strings.CutSuffix(strings.ToLower(c.Name), stem); ok {
				for _, of := range []string{before + "_type", before + "type"} {
					if typ := t.col(of); typ != nil && !typ.Nullable && typ.identifies() {
						return []string{typ.Name, c.Name}
					}
				}
			}
		}
		return []string{c.Name}
	}
	return nil
}

// eventColumn returns a log's column that contains the kind of event, or "" if there is none.
func (t *Table) eventColumn(key []string) string {
	for _, name := range kindNames {
		c := t.col(name)
		if c == nil || c.Nullable || !c.shortText() || has(key, c.Name) {
			continue
		}
		values := distinct(t.Values[c.Name])
		if len(values) == 0 || len(values) > fewKinds || len(values) > 4 && len(values) > t.Rows/2 {
			continue
		}
		if slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(changes, strings.ToLower(v)) }) {
			return c.Name
		}
	}
	return ""
}

// repeats reports whether several sampled rows belong to one entity.
func (t *Table) repeats(key []string) bool {
	seen := map[string]bool{}
	for row := range t.Rows {
		var id strings.Builder
		for _, name := range key {
			if values := t.Values[t.col(name).Name]; row < len(values) {
				id.Write(values[row])
			}
			id.WriteByte(0)
		}
		if seen[id.String()] {
			return true
		}
		seen[id.String()] = true
	}
	return false
}

func subset(of, names []string) bool {
	return !slices.ContainsFunc(of, func(n string) bool { return !has(names, n) })
}

// attributeNames and valueNames list common names of the columns that hold an attribute and its value.
var (
	attributeNames = []string{"attribute_id", "attribute", "attribute_name", "attribute_code",
		"attr", "attr_id", "attr_name",
		"meta_key", "property", "property_name", "property_key", "field", "field_name", "setting", "key", "name"}
	valueNames = []string{"value", "meta_value", "attribute_value", "attr_value", "property_value", "field_value", "val"}
)

// attributes recognizes a table with a row for each attribute of an entity, and finds the columns of the entity, of the
// attribute's name and of its value. If an entity may have an attribute twice, the row's AUTO_INCREMENT number is the
// version. It returns false for any other table.
func (r *roles) attributes(t *Table) bool {
	attribute, value := t.named(attributeNames), t.named(valueNames)
	if attribute == nil || value == nil || attribute.Nullable || !(attribute.shortText() || attribute.integer()) ||
		len(t.Columns) > 8 || len(distinct(t.Values[attribute.Name])) > fewKinds {
		return false
	}
	for _, u := range t.Unique { // the unique key has the entity, the attribute's name, and perhaps a store or language
		if len(u) > 1 && has(u, attribute.Name) && !has(u, value.Name) {
			r.key = without(u, attribute.Name)
			r.column, r.valueOf = attribute.Name, value.Name
			return true
		}
	}
	if len(t.Primary) != 1 || !t.col(t.Primary[0]).Auto || len(t.Unique) > 1 {
		return false
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if name := strings.ToLower(c.Name); strings.HasSuffix(name, "_id") && c.integer() && !c.Nullable &&
			!has(t.Primary, c.Name) &&
			c != attribute && t.leads(c.Name) {
			r.key, r.column, r.valueOf, r.version = []string{c.Name}, attribute.Name, value.Name, t.Primary[0]
			return true
		}
	}
	return false
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.EqualFold(n, name) })
}

// named tries the names in their order, and returns the first column that the table has, or nil. It skips a column that
// is the whole primary key.
func (t *Table) named(names []string) *Column {
	for _, name := range names {
		if c := t.col(name); c != nil && !has(t.Primary, name) || c != nil && len(t.Primary) > 1 {
			return c
		}
	}
	return nil
}

// leads reports whether an index starts with the column.
func (t *Table) leads(name string) bool {
	begins := func(index []string) bool { return len(index) > 0 && strings.EqualFold(index[0], name) }
	return has(t.indexed, name) || slices.ContainsFunc(t.Unique, begins)
}

// isOutbox reports whether a table's name says that it is an outbox: its events are deleted after they are published.
func (t *Table) isOutbox() bool { return strings.Contains(strings.ToLower(t.Name), "outbox") }

var ofFrameworks = []string{"schema_migrations", "ar_internal_metadata", "django_migrations", "django_content_type",
	"django_session", "django_admin_log", "auth_permission", "auth_group", "auth_group_permissions", "auth_user_groups",
	"auth_user_user_permissions", "flyway_schema_history", "databasechangelog", "databasechangeloglock", "migrations",
	"failed_jobs", "job_batches", "password_reset_tokens", "personal_access_tokens", "active_storage_blobs",
	"active_storage_attachments", "active_storage_variant_records", "doctrine_migration_versions", "alembic_version"}

func ofFramework(table string) bool { return slices.Contains(ofFrameworks, strings.ToLower(table)) }
