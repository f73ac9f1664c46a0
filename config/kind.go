package config

// kindRule says what a kind of view can be told, besides from, sink, kind, where and on_change.
type kindRule struct {
	kind string
	need []string
	may  []string
}

func (r kindRule) keys() []string { return append(append([]string(nil), r.need...), r.may...) }

// commonKeys are the options of every view.
func commonKeys() []string { return []string{"from", "sink", "kind", "where", "on_change"} }

// kindsOf are the kinds that a type of sink keeps.
func kindsOf(sinkType string) []kindRule {
	switch sinkType {
	case "mysql":
		return []kindRule{
			{"index", []string{"fields"}, []string{"table", "key", "key_column", "version_column", "shard_on", "create", "types"}},
			{"row", []string{"fields"}, []string{"table", "key", "key_column", "version_column", "shard_on", "create", "types"}},
			{"counter", []string{"group"}, []string{"sum", "table", "shard_on", "create", "types"}},
		}
	case "redis":
		return []kindRule{
			{"hash", []string{"key", "fields"}, nil},
			{"json", []string{"key", "fields"}, nil},
			{"index", []string{"key"}, []string{"member", "unique"}},
			{"counter", []string{"key"}, []string{"sum"}},
			{"ranking", []string{"key"}, []string{"member", "sum"}},
		}
	case "elastic":
		return []kindRule{
			{"document", []string{"fields"}, []string{"id", "routing", "index", "mapping_file", "settings_file"}},
		}
	}
	return nil
}

// needExample is what an error shows for an option that is missing.
func needExample(key string) string {
	switch key {
	case "fields":
		return `["email"]`
	case "group":
		return `["object_id"]`
	}
	return `"user:{id}"`
}
