package redis

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/config"
	"replicator/internal/keytemplate"
	"replicator/sinks/judge"
)

// Settings are the parts of a view's definition that only Redis sinks have. Views' fingerprints include their JSON. So
// the JSON's names and order must never change.
type Settings struct {
	Unique bool          `json:"unique,omitempty"` // in an index, each value's key holds only one member
	Expire time.Duration `json:"expire,omitempty"` // a key expires this long after its entity's last change; 0: never
}

// Expires reports whether keys of the view expire some time after the last change.
func (s Settings) Expires() bool { return s.Expire > 0 }

func settingsOf(v *replicator.View) Settings {
	s, _ := v.Settings.(Settings)
	return s
}

// Connection is the location of a server, a cluster or a server's sentinels, and the login.
type Connection struct {
	URLs     []config.Secret // the URL of the server, or one or more of a cluster's nodes or of the sentinels
	Cluster  bool
	Sentinel string // the name of the master that the sentinels watch; "": no sentinels
	Login    config.Login
}

// Type describes Redis sinks to the configuration.
func Type() config.SinkType {
	key := config.Key{Name: "key", Example: config.TemplateExample}
	fields := config.Key{Name: "fields", Example: config.FieldsExample}
	adds := map[string]string{"expire": "a sum holds amounts of many entities, which changed at different times"}
	return config.SinkType{
		Name: "redis",
		Keys: []string{"url", "url_file", "urls", "urls_file", "cluster", "sentinel", "username", "password", "password_file",
			"ca_cert", "cert", "cert_key", "server_name"},
		Kinds: []config.Kind{
			{Name: "hash", Need: []config.Key{key, fields}, May: []string{"expire"}},
			{Name: "json", Need: []config.Key{key, fields}, May: []string{"expire"}},
			{Name: "index", Need: []config.Key{key}, May: []string{"member", "unique", "expire"}},
			{Name: "counter", Need: []config.Key{key}, May: []string{"sum"}, Not: adds},
			{Name: "ranking", Need: []config.Key{key}, May: []string{"member", "sum"}, Not: adds},
		},
		Read:     readConnection,
		ReadView: readView,
		Open:     openSink,
	}
}

const urlExample = `"redis://127.0.0.1:6379/0"`

func readConnection(s *config.Section) any {
	const many = `["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"]`
	one := s.Secret("url", urlExample)
	c := Connection{Cluster: s.Bool("cluster"), Sentinel: s.Name("sentinel", "", `"mymaster"`)}
	key := "url"
	switch {
	case s.Given("url") && s.Given("urls"):
		s.Problem("urls", "url is given as well; give one of the two")
	case s.Has("urls"):
		key = "urls"
		for _, u := range s.List(key, many) {
			c.URLs = append(c.URLs, config.Secret(u.Text))
		}
	case s.Has("urls_file"):
		key = "urls_file"
		for _, u := range strings.Fields(s.SecretFile("urls").Reveal()) {
			c.URLs = append(c.URLs, config.Secret(u))
		}
	case s.Given("url"):
		if !s.Has(key) {
			key = "url_file"
		}
		if one != "" {
			c.URLs = []config.Secret{one}
		}
	default:
		s.Need("url", urlExample)
	}
	for _, u := range c.URLs {
		o, err := parseURL(u.Reveal())
		if err == nil && c.Cluster && o.DB != 0 {
			err = errNumbered
		}
		if err != nil {
			s.Problem(key, "%v", err)
		}
	}
	if c.Cluster && c.Sentinel != "" {
		s.Problem("sentinel", "cluster = true is given as well; give one of the two")
	}
	if len(c.URLs) > 1 && !c.Cluster && c.Sentinel == "" {
		s.Problem("urls", "several servers need cluster = true, or sentinel = \"MASTER\"")
	}
	c.Login = s.Login()
	return c
}

// urlForm ends every error about a URL.
const urlForm = "it has the form redis://USER:PASSWORD@HOST:PORT/NUMBER, rediss:// for TLS, or unix:///PATH?db=NUMBER"

// errNumbered is the error for a cluster's URL with a database: the nodes refuse every one but 0.
var errNumbered = errors.New("names a database by its number, and a cluster has only database 0: leave it out")

// parseURL parses a URL as the client does. Its errors never quote the URL, because a mistyped one may have the
// password anywhere. The client's own errors quote it.
func parseURL(text string) (*redis.Options, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL (it is not shown, because it may hold a password); " + urlForm)
	case u.Scheme == "unix" && u.Path != "":
	case u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "":
		return nil, errors.New("is not a Redis URL; " + urlForm)
	}
	o, err := redis.ParseURL(text)
	if err == nil && o.DB >= 0 {
		return o, nil
	}
	path := strings.Trim(u.Path, "/")
	if _, err := strconv.ParseUint(path, 10, 31); u.Scheme != "unix" && path != "" && err != nil {
		return nil, errors.New("must have /NUMBER, the number of a database, after its host (the URL is not shown, " +
			"because it may hold a password); " + urlForm)
	}
	return nil, errors.New("has parameters that are not known or have wrong values (they are not shown, because they " +
		"may hold a password); set username and password in the sink's section instead, and " + urlForm)
}

// maxExpire is ten years. A server's own limit is some hundred million years, but numbers in scripts lose precision
// at much smaller values.
const maxExpire = 10 * 365 * 24 * time.Hour

func readView(s *config.ViewSection) config.Target {
	v := s.View
	v.Key = s.Template("key")
	v.Member = s.Template("member")
	own := Settings{Unique: s.Bool("unique"), Expire: s.Duration("expire", time.Second, maxExpire)}
	if own.Unique && s.Has("expire") {
		s.Problem("expire", "does not belong to an index with unique = true: a value's key shows one of the entities "+
			"that have the value, and changes of the others would delay the key's expiry. Remove expire or unique")
	}
	v.Settings = own
	switch v.Kind {
	case "hash", "json":
		s.Covers("key", v.Key)
	case "counter", "ranking":
		v.Sum = s.Name("sum", "", `"cnt"`)
		v.Fields = []replicator.Field{s.Amount(v.Sum, "sum")}
	}
	if v.Key == "" {
		return config.Target{}
	}
	if keytemplate.Meet(v.Key, prefix+"{any}") {
		s.Problem("key", "%q can make keys that begin with %q, as the sink's own keys do. Begin it with other text, such as %q",
			v.Key, prefix, v.Name+":{…}")
	}
	return config.Target{Key: "key", Places: databases(s.Sink), Template: v.Key}
}

// databases returns the databases that a sink's URLs lead to. Two sinks must not share one.
func databases(sink *config.Sink) (all []string) {
	at, _ := sink.Settings.(Connection)
	for _, u := range at.URLs {
		if o, err := parseURL(u.Reveal()); err == nil {
			all = append(all, fmt.Sprintf("%s/%s/%d", o.Addr, at.Sentinel, o.DB))
		}
	}
	return all
}

func openSink(o config.Opening) (replicator.Sink, error) {
	at := o.Sink.Settings.(Connection)
	c := Config{Name: o.Sink.Name, Cluster: at.Cluster, Sentinel: at.Sentinel,
		Username: at.Login.Username, Password: at.Login.Password.Reveal(),
		TLS: at.Login.TLS, Timeout: o.Sink.Timeout, Logger: o.Log,
		Sources: judge.Sources{Shards: o.Sources, Partitions: o.Partitions},
		Feeds:   o.Feeds}
	for _, u := range at.URLs {
		c.URLs = append(c.URLs, u.Reveal())
	}
	var err error
	if c.Names, err = o.Names(); err != nil {
		return nil, err
	}
	return New(c)
}

func storedAs(v *replicator.View) string {
	switch {
	case v.Kind == "hash":
		return "hash"
	case v.Kind == "ranking":
		return "zset"
	case v.Kind == "index" && !settingsOf(v).Unique:
		return "set"
	}
	return "string"
}
