package elastic

import (
	"encoding/json"
	"net/url"
	"strings"

	"replicator"
	"replicator/config"
)

// Settings are a view's settings that only Elasticsearch sinks have. Their JSON is part of the fingerprint, the hash of
// a view's definition, so its names and their order must never change.
type Settings struct {
	Index         string `json:"index,omitempty"`    // the name of the alias
	Mapping       string `json:"mapping,omitempty"`  // the contents of mapping_file
	IndexSettings string `json:"settings,omitempty"` // the contents of settings_file
}

func settingsOf(v *replicator.View) Settings {
	s, _ := v.Settings.(Settings)
	return s
}

// Connection says where a cluster is and how to log in.
type Connection struct {
	Addresses []string // without user and password
	APIKey    config.Secret
	Login     config.Login
}

// Type returns what the configuration must know of Elasticsearch sinks: their keys, their kind of view, and how to make
// one.
func Type() config.SinkType {
	return config.SinkType{
		Name: "elastic",
		Keys: []string{"addresses", "username", "password", "password_file", "api_key", "api_key_file",
			"ca_cert", "cert", "cert_key", "server_name"},
		Kinds: []config.Kind{
			{Name: "document", Need: []config.Key{{Name: "fields", Example: config.FieldsExample}},
				May: []string{"id", "routing", "index", "mapping_file", "settings_file"}},
		},
		Read:     readConnection,
		ReadView: readView,
		Open:     openSink,
	}
}

const addressesExample = `["http://127.0.0.1:9200"]`

func readConnection(s *config.Section) any {
	c := Connection{APIKey: s.Secret("api_key", `"${API_KEY}"`)}
	addresses := s.List("addresses", addressesExample)
	s.Need("addresses", addressesExample)
	for _, a := range addresses {
		u, err := url.Parse(a.Text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			s.ProblemAt(a, "addresses", "contains an invalid address. An address has the form http://HOST:PORT or "+
				"https://HOST:PORT")
		case u.User != nil:
			s.ProblemAt(a, "addresses", "contains a user. Set username and password (or password_file) instead")
		default:
			c.Addresses = append(c.Addresses, strings.TrimRight(a.Text, "/"))
		}
	}
	c.Login = s.Login()
	if c.APIKey != "" && (c.Login.Username != "" || c.Login.Password != "") {
		s.Problem("api_key", "username and password are given as well. Give one or the other")
	}
	if c.Login.Password != "" && c.Login.Username == "" {
		s.Problem("password", "needs a username, too")
	}
	return c
}

func readView(s *config.ViewSection) config.Target {
	v := s.View
	v.Key = s.Template("id")
	v.Member = s.Template("routing")
	index := s.Name("index", v.Name, `"users"`)
	if problem := badIndex(index); problem != "" {
		s.Problem("index", "%s", problem)
	}
	v.Settings = Settings{Index: index, Mapping: jsonFile(s, "mapping_file"), IndexSettings: jsonFile(s, "settings_file")}
	s.Covers("id", v.Key)
	target := config.Target{Key: "index"}
	if at, _ := s.Sink.Settings.(Connection); index != "" {
		for _, address := range at.Addresses { // a second sink with one of the addresses can't use the same index
			target.Places = append(target.Places, address+"\x00"+index)
		}
	}
	return target
}

// badIndex returns why Elasticsearch would refuse an index's name, or "" if it accepts the name.
func badIndex(name string) string {
	switch {
	case name != strings.ToLower(name):
		return "Elasticsearch needs index names in lower case. Write index = \"" + strings.ToLower(name) + "\""
	case strings.ContainsAny(name, "\\/*?\"<>| ,#:"), strings.HasPrefix(name, "-"), strings.HasPrefix(name, "_"),
		strings.HasPrefix(name, "+"), name == ".", name == "..":
		return "Elasticsearch does not allow this index name. A name must not contain \\ / * ? \" < > | , # : or " +
			"space, or begin with - _ +"
	case len(name) > 200:
		return "an index name can have at most 200 bytes, because the program appends a suffix"
	}
	return ""
}

func jsonFile(s *config.ViewSection, key string) string {
	path := s.Name(key, "", `"users.json"`)
	if path == "" {
		return ""
	}
	data, err := s.ReadFile(path)
	var object map[string]any
	if err != nil {
		s.Problem(key, "can't be read: %v", err)
	} else if err := json.Unmarshal(data, &object); err != nil {
		s.Problem(key, "%s does not contain a JSON object: %v", path, err)
	}
	return string(data)
}

func openSink(o config.Opening) (replicator.Sink, error) {
	entities, err := o.Entities()
	if err != nil {
		return nil, err
	}
	at := o.Sink.Settings.(Connection)
	s, err := New(Config{
		Name: o.Sink.Name, Addresses: at.Addresses, TLS: at.Login.TLS, APIKey: at.APIKey.Reveal(),
		Username: at.Login.Username, Password: at.Login.Password.Reveal(), Timeout: o.Sink.Timeout,
		Tables: o.Tables, Views: o.Views, Sources: o.Sources, Partitions: o.Partitions, DocumentID: entities, Logger: o.Log,
		Columns: o.Columns, Samples: o.Samples,
	})
	if err != nil {
		return nil, err
	}
	if len(o.Sources) > 1 {
		return s, nil
	}
	return Shadowing{Sink: s}, nil
}
