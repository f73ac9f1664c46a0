package survey

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"replicator/internal/mysqldsn"
)

// Target is a server that will hold views.
type Target struct {
	Type string // the sink's type: mysql, redis or elastic

	// DSN is a MySQL server's DSN with its password; "" for other servers. The caller sets Database, which describes
	// that server's database. A suggested view may use an existing table if it is empty or already holds the view.
	DSN      string
	Database *Database

	settings []pair   // the settings in the sink's section
	secrets  []string // the environment variables that hold the server's passwords
}

// ErrTarget means that a text names no server. The error doesn't contain the text, which may contain the password.
var ErrTarget = errors.New("not the address of a sink. Give a Redis URL (redis://HOST:PORT/NUMBER), " +
	"the address of an Elasticsearch (http://HOST:PORT), " +
	"or the DSN of a MySQL server (USER:PASSWORD@tcp(HOST:PORT)/DATABASE)")

// server matches a URL: its scheme, an optional user with password, and the address.
var server = regexp.MustCompile(`^(rediss?|unix|https?)://(?:([^@/]*)@)?([^@]+)$`)

var variableOf = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// ParseTarget parses a URL or a DSN. It replaces a password by an environment variable. The text may name the variable
// as ${NAME}. Otherwise it is REDIS_PASSWORD, ELASTIC_PASSWORD or SINK_PASSWORD.
func ParseTarget(text string) (Target, error) {
	parts := server.FindStringSubmatch(text)
	if parts == nil {
		return parseDSN(text)
	}
	scheme, login, place := parts[1], parts[2], parts[3]
	if _, err := url.Parse(scheme + "://" + place); err != nil || strings.HasPrefix(place, "/") != (scheme == "unix") {
		return Target{}, ErrTarget
	}
	t := Target{Type: "redis", settings: []pair{{"url", quoted(scheme + "://" + place)}}}
	variable := "REDIS_PASSWORD"
	if strings.HasPrefix(scheme, "http") {
		t = Target{Type: "elastic", settings: []pair{{"addresses",
			list([]string{scheme + "://" + strings.TrimSuffix(place, "/")})}}}
		variable = "ELASTIC_PASSWORD"
	}
	user, password, _ := strings.Cut(login, ":")
	if user != "" {
		name, err := url.PathUnescape(user)
		if err != nil {
			return Target{}, ErrTarget
		}
		t.settings = append(t.settings, pair{"username", quoted(name)})
	}
	if password != "" {
		if given := variableOf.FindStringSubmatch(password); given != nil {
			variable = given[1]
		}
		t.secrets = []string{variable}
		t.settings = append(t.settings, pair{"password", `"${` + variable + `}"`})
	}
	return t, nil
}

func parseDSN(text string) (Target, error) {
	cfg, err := mysqldsn.Parse(text)
	if err != nil || cfg.DBName == "" || !strings.Contains(text, "@") {
		return Target{}, ErrTarget
	}
	variable := "SINK_PASSWORD"
	if given := variableOf.FindStringSubmatch(cfg.Passwd); given != nil {
		variable = given[1]
	}
	hidden := HidePassword(text, variable)
	t := Target{Type: "mysql", DSN: text, settings: []pair{{"dsn", hidden.quoted()}}}
	if hidden.variable != "" {
		t.secrets = []string{variable}
	}
	return t, nil
}

// SameDatabase reports whether two DSNs name the same database of the same server.
func SameDatabase(a, b string) bool {
	one, err := mysqldsn.Parse(a)
	if err != nil {
		return false
	}
	other, err := mysqldsn.Parse(b)
	return err == nil && one.Addr == other.Addr && one.DBName == other.DBName
}

// sinkNames lists the names of the sinks in a starter configuration, by type, in the order of the file.
var sinkNames = []pair{{"mysql", "main"}, {"redis", "cache"}, {"elastic", "search"}}

// sinks returns the sections of the new configuration for one sink of each type. If no view of a sink is enabled, its
// section is disabled, too.
func (p *plan) sinks() (all []stanza) {
	for _, n := range sinkNames {
		s := stanza{header: "sinks." + n.text, settings: []pair{{"type", quoted(n.name)}}, live: p.live[n.text] > 0}
		switch t := p.target(n.name); {
		case t != nil:
			s.settings = append(s.settings, t.settings...)
		case n.name == "mysql":
			s.settings = append(s.settings, pair{"dsn", p.db.DSN.quoted()})
		case n.name == "redis":
			s.settings = append(s.settings, pair{"url", `"redis://127.0.0.1:6379/0"`})
		default:
			s.settings = append(s.settings, pair{"addresses", `["http://127.0.0.1:9200"]`})
		}
		all = append(all, s)
	}
	return all
}

func (p *plan) target(typ string) *Target {
	for i := range p.db.Targets {
		if p.db.Targets[i].Type == typ {
			return &p.db.Targets[i]
		}
	}
	return nil
}

// mostLive bounds how many views of one sink are enabled, because each enabled view must be filled.
const mostLive = 10

// keep decides whether the best view of a table for a sink is enabled. The view is enabled if the sink was named, or if
// no sink was named and the sink is the source's own database. Each sink gets at most mostLive enabled views.
func (p *plan) keep(v *stanza, sink string) {
	named := len(p.db.Targets) == 0 && sink == "main"
	for _, n := range sinkNames {
		named = named || n.text == sink && p.target(n.name) != nil
	}
	if v.live = named && p.live[sink] < mostLive; v.live {
		p.live[sink]++
	}
}
