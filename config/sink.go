package config

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

// sinkTimeout is the default of a sink's timeout.
const sinkTimeout = 30 * time.Second

func sinkTypes() []string { return []string{"mysql", "redis", "elastic"} }

// sinkKeys are the keys of a type of sink, besides type.
func sinkKeys(sinkType string) []string {
	switch sinkType {
	case "mysql":
		return []string{"dsn", "dsn_file", "shards", "timeout"}
	case "redis":
		return []string{"url", "url_file", "urls", "urls_file", "cluster", "sentinel", "username", "password", "password_file",
			"ca_cert", "cert", "cert_key", "server_name", "timeout"}
	case "elastic":
		return []string{"addresses", "username", "password", "password_file", "api_key", "api_key_file",
			"ca_cert", "cert", "cert_key", "server_name", "timeout"}
	}
	return nil
}

func (l *loader) sinks(root *section) {
	names, sections := root.named("sinks")
	for i, s := range sections {
		l.config.Sinks = append(l.config.Sinks, l.sink(names[i], s))
	}
}

// sink reads one sink. Its Type is empty if it is not known: then nothing can be said about its keys or its views.
func (l *loader) sink(name string, s *section) Sink {
	k := Sink{Name: name}
	for _, t := range sinkTypes() {
		for _, key := range sinkKeys(t) {
			s.knows(key)
		}
	}
	s.need("type", `"mysql"`)
	if word := s.name("type", "", `"mysql"`); slices.Contains(sinkTypes(), word) {
		k.Type = word
	} else if word != "" {
		s.problem("type", "%q is not a type of sink%s", word, meant(word, sinkTypes()))
	}
	switch k.Type {
	case "mysql":
		k.Shards = l.shards(s)
		for i, shard := range k.Shards {
			if shard.DSN != "" && shard.Database == "" {
				s.problem("dsn", "names no database; end it with /DATABASE")
			}
			for _, other := range k.Shards[:i] {
				if shard.DSN != "" && shard.Address == other.Address && shard.Database == other.Database {
					s.problem("shards", "%s and %s are one database, %s at %s; give each shard its own", other.Name, shard.Name, shard.Database, shard.Address)
				}
			}
		}
	case "redis":
		l.redis(s, &k)
	case "elastic":
		l.elastic(s, &k)
	}
	k.Timeout = s.duration("timeout", sinkTimeout, 2*time.Second, time.Hour)
	if k.Type != "" {
		s.only(append([]string{"type"}, sinkKeys(k.Type)...), "a "+k.Type+" sink")
	}
	s.done()
	return k
}

func (l *loader) redis(s *section, k *Sink) {
	const many = `["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"]`
	one := s.secret("url", `"redis://127.0.0.1:6379/0"`)
	k.Cluster = s.boolean("cluster")
	k.Sentinel = s.name("sentinel", "", `"mymaster"`)
	key := "url"
	switch {
	case s.given("url") && s.given("urls"):
		s.problem("urls", "url is given as well; give one of the two")
	case s.has("urls"):
		key = "urls"
		for _, u := range s.list(key, many) {
			k.URLs = append(k.URLs, Secret(u.text))
		}
	case s.has("urls_file"):
		key = "urls_file"
		for _, u := range strings.Fields(s.secretFile("urls").Reveal()) {
			k.URLs = append(k.URLs, Secret(u))
		}
	case s.given("url"):
		if !s.has(key) {
			key = "url_file"
		}
		if one != "" {
			k.URLs = []Secret{one}
		}
	default:
		s.need("url", `"redis://127.0.0.1:6379/0"`)
	}
	for _, u := range k.URLs {
		l.redisURL(s, key, u)
	}
	if k.Cluster && k.Sentinel != "" {
		s.problem("sentinel", "cluster = true is given as well; a server has one or the other")
	}
	if len(k.URLs) > 1 && !k.Cluster && k.Sentinel == "" {
		s.problem("urls", "several servers need cluster = true, or sentinel = \"MASTER\"")
	}
	l.login(s, k)
}

// redisURL checks a URL without ever showing it.
func (l *loader) redisURL(s *section, key string, secret Secret) {
	const form = "redis://USER:PASSWORD@HOST:PORT/NUMBER, rediss:// for TLS, or unix:///PATH"
	u, err := url.Parse(secret.Reveal())
	switch {
	case err != nil:
		s.problem(key, "is not a URL (it is not shown, for the password's sake); it has the form %s", form)
	case u.Scheme == "unix" && u.Path != "":
	case u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "":
		s.problem(key, "is not a Redis URL; it has the form %s", form)
	}
}

func (l *loader) elastic(s *section, k *Sink) {
	k.APIKey = s.secret("api_key", `"${API_KEY}"`)
	addresses := s.list("addresses", `["http://127.0.0.1:9200"]`)
	s.need("addresses", `["http://127.0.0.1:9200"]`)
	for _, a := range addresses {
		u, err := url.Parse(a.text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			s.l.problem(a.line, under(s.path, "addresses"), "holds what is not an address; it has the form http://HOST:PORT or https://HOST:PORT")
		case u.User != nil:
			s.l.problem(a.line, under(s.path, "addresses"), "holds a user; say username and password (or password_file) instead")
		default:
			k.Addresses = append(k.Addresses, strings.TrimRight(a.text, "/"))
		}
	}
	l.login(s, k)
	if k.APIKey != "" && (k.Username != "" || k.Password != "") {
		s.problem("api_key", "username and password are given as well; give one or the other")
	}
	if k.Password != "" && k.Username == "" {
		s.problem("password", "needs a username, too")
	}
}

// login reads who the program is to a sink, and how it knows the sink.
func (l *loader) login(s *section, k *Sink) {
	k.Username = s.name("username", "", `"replicator"`)
	k.Password = s.secret("password", `"${PASSWORD}"`)
	k.TLS = TLS{
		CACert:     l.existing(s, "ca_cert"),
		Cert:       l.existing(s, "cert"),
		Key:        l.existing(s, "cert_key"),
		ServerName: s.name("server_name", "", `"search.internal"`),
	}
	if (k.TLS.Cert == "") != (k.TLS.Key == "") {
		s.problem("cert", "cert and cert_key belong together: give both or none")
	}
}

// existing reads the path of a file that must be there.
func (l *loader) existing(s *section, key string) string {
	path := s.name(key, "", `"/etc/replicator/`+key+`.pem"`)
	if path == "" {
		return ""
	}
	path = l.resolve(path)
	if _, err := l.readFile(path); err != nil && !l.leavesOut(under(s.path, key)) {
		s.problem(key, "can't be read: %v", err)
	}
	return path
}

// only reports the known keys that what is described does not have.
func (s *section) only(keys []string, what string) {
	for _, key := range s.at.names {
		if slices.Contains(s.known, key) && !slices.Contains(keys, key) {
			s.problem(key, "does not belong to %s, which has: %s", what, strings.Join(keys, ", "))
		}
	}
}
