package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"replicator/config"
	"replicator/sinks/judge"
)

// Config has a Sink's addresses and login, its time limit, and the sources that feed it.
type Config struct {
	Name string // the sink's name in the configuration, for messages

	// URLs are those of the server, of nodes of a cluster, or of sentinels: redis://USER:PASSWORD@HOST:PORT/NUMBER,
	// rediss:// for TLS, unix:///PATH.
	URLs     []string
	Cluster  bool   // the URLs are those of nodes of a cluster
	Sentinel string // the name of the master that the sentinels at URLs watch; "": no sentinels

	Username string // the user at the server; takes precedence over the URL's user
	Password string

	TLS config.TLS

	Timeout time.Duration // how long to wait for an answer until the connection counts as lost; 0: the constant Timeout

	Sources judge.Sources // all sources (such as shards) that feed the sink, if rows may move from one to another

	// Feeds reports whether a source of that name feeds the sink now. nil: only Sources.Shards feed it.
	Feeds func(source string) bool

	Names  config.Names // tells which keys a view can make, to find keys that no row made; nil: they are not searched for
	Logger *slog.Logger // nil: nothing is logged
}

// Timeout is how long a connection may go without an answer before it counts as lost, unless Config.Timeout says
// otherwise. Scripts are short, but a server that forks or loads its data may be silent for a while.
const Timeout = 30 * time.Second

const dialTimeout = 5 * time.Second

// lifetime is the age at which a connection is replaced. A new one shows whether the address leads to another server
// now.
const lifetime = time.Minute

// quiet keeps the client from writing messages of its own to standard error. The errors that the client returns say the
// same.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// connect makes the client, and the links that watch its connections. Errors never contain a URL, which may hold a
// password.
func connect(c Config) (redis.UniversalClient, *links, error) {
	if len(c.URLs) == 0 {
		return nil, nil, errors.New("it has no url: set url = \"redis://HOST:PORT/NUMBER\"")
	}
	quiet()
	if c.Timeout == 0 {
		c.Timeout = Timeout
	}
	var all []*redis.Options
	for i, u := range c.URLs {
		o, err := parseURL(u)
		if err != nil {
			return nil, nil, fmt.Errorf("url %d %w", i+1, err)
		}
		all = append(all, o)
	}
	first := all[0]
	u := redis.UniversalOptions{
		DB: first.DB, Username: first.Username, Password: first.Password, TLSConfig: first.TLSConfig,
		MasterName: c.Sentinel, IsClusterMode: c.Cluster, Protocol: 2,
		// The client must not repeat a failed command, because the server may have executed it. A cluster's client repeats it
		// all the same, up to MaxRedirects times, which are needed for MOVED and ASK.
		MaxRetries: -1, MaxRedirects: 8,
		DialTimeout: dialTimeout, DialerRetries: 1,
		ReadTimeout: c.Timeout, WriteTimeout: c.Timeout, ContextTimeoutEnabled: true,
		ConnMaxIdleTime: 5 * time.Minute, ConnMaxLifetime: lifetime, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, o := range all {
		u.Addrs = append(u.Addrs, o.Addr)
	}
	if c.Sentinel != "" { // the sentinels get the user and password of the URLs, too
		u.SentinelUsername, u.SentinelPassword = first.Username, first.Password
	}
	if c.Username != "" {
		u.Username = c.Username
	}
	if c.Password != "" {
		u.Password = c.Password
	}
	if c.Cluster && u.DB != 0 {
		return nil, nil, fmt.Errorf("the url %w", errNumbered)
	}
	if err := c.secure(&u); err != nil {
		return nil, nil, err
	}
	known := &links{servers: map[string]string{}}
	u.Dialer = known.over(redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: u.TLSConfig}))
	u.OnConnect = known.greets("") // no address: all connections lead to the one server, or to the current master
	if first.Network == "unix" {
		o := u.Simple()
		o.Network, o.Addr = "unix", first.Addr
		return redis.NewClient(o), known, nil
	}
	if c.Cluster {
		o := u.Cluster()
		o.NewClient = func(node *redis.Options) *redis.Client {
			node.OnConnect = known.greets(node.Addr)
			return redis.NewClient(node)
		}
		cluster := redis.NewClusterClient(o)
		// Without this, the client learns only every 10 s which node has which slots, and uses a dead node until then.
		known.unreached = func() { cluster.ReloadState(context.Background()) }
		return cluster, known, nil
	}
	return redis.NewUniversalClient(&u), known, nil
}

func (c Config) secure(u *redis.UniversalOptions) error {
	if u.TLSConfig == nil {
		if c.TLS.CACert == "" && c.TLS.Cert == "" && c.TLS.ServerName == "" {
			return nil
		}
		u.TLSConfig = &tls.Config{}
	}
	u.TLSConfig = u.TLSConfig.Clone()
	if len(u.Addrs) > 1 || u.MasterName != "" {
		u.TLSConfig.ServerName = "" // each node's certificate must name its own address
	}
	return c.TLS.Secure(u.TLSConfig)
}
