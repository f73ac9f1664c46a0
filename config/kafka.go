package config

import (
	"crypto/tls"
	"net"
	"time"

	"replicator/internal/kafkaclient"
)

// Kafka says how to reach a Kafka cluster.
type Kafka struct {
	Brokers   []string // HOST:PORT
	TLS       bool
	Mechanism string // SASL mechanism; "": no SASL
	Login     Login
}

// Topics says which changelogs in Kafka to read.
type Topics struct {
	Kafka
	Topics  []string
	Group   string        // each sink has the consumer group GROUP.SINK
	Session time.Duration // how long a member of the consumer group may be silent before it loses its partitions
}

// defaultSession is the default of Topics.Session. It is short, so that other members continue a killed member's
// partitions within 15 s. By default, brokers require at least 6 s.
const defaultSession = 8 * time.Second

// longestTopic limits the length of a topic's name, because sinks store the text TOPIC/PARTITION, in up to 64
// characters.
const longestTopic = 57

func (s *Section) topics() *Topics {
	t := &Topics{Kafka: s.Kafka()}
	s.Need("topics", `["changes"]`)
	for _, topic := range s.List("topics", `["changes"]`) {
		if t.Topics = append(t.Topics, topic.Text); len(topic.Text) > longestTopic {
			s.ProblemAt(topic, "topics", "names have at most %d characters", longestTopic)
		}
	}
	s.Need("group", `"replicator"`)
	t.Group = s.Name("group", "", `"replicator"`)
	t.Session = s.duration("session", defaultSession, 6*time.Second, 30*time.Minute)
	return t
}

// KafkaKeys are the keys that Section.Kafka reads.
func KafkaKeys() []string {
	return []string{"brokers", "tls", "sasl", "username", "password", "password_file", "ca_cert", "cert", "cert_key",
		"server_name"}
}

const brokersExample = `["10.0.0.1:9092", "10.0.0.2:9092"]`

// Kafka reads how to connect to a Kafka cluster: the keys `brokers`, `tls` and `sasl`, and the keys of a Login, such as
// `username` and `ca_cert`.
func (s *Section) Kafka() Kafka {
	k := Kafka{TLS: s.Bool("tls")}
	s.Need("brokers", brokersExample)
	for _, b := range s.List("brokers", brokersExample) {
		if host, port, err := net.SplitHostPort(b.Text); err != nil || host == "" || port == "" {
			s.ProblemAt(b, "brokers", "%q is not HOST:PORT", b.Text)
		}
		k.Brokers = append(k.Brokers, b.Text)
	}
	k.Login = s.Login()
	if k.Login.TLS != (TLS{}) && !k.TLS {
		k.TLS = true // a certificate is only used with TLS
	}
	loggedIn := s.Has("username") || s.Given("password")
	if s.Has("sasl") || loggedIn {
		k.Mechanism = s.choice("sasl", kafkaclient.ScramSHA512, kafkaclient.ScramSHA256, kafkaclient.Plain)
		if !s.Has("username") || !s.Given("password") {
			s.Problem("sasl", "needs username and password (or password_file)")
		}
	} else {
		s.knows("sasl")
	}
	return k
}

// Access returns what a client needs to reach the cluster.
func (k Kafka) Access() (kafkaclient.Access, error) {
	a := kafkaclient.Access{Brokers: k.Brokers, Mechanism: k.Mechanism, Username: k.Login.Username,
		Password: k.Login.Password.Reveal()}
	if k.TLS {
		a.TLS = &tls.Config{}
		if err := k.Login.TLS.Secure(a.TLS); err != nil {
			return a, err
		}
	}
	return a, nil
}

// notOfMySQL reports keys that a source in MySQL can't have, because they belong to a source in Kafka.
func (s *Section) notOfMySQL() {
	for _, key := range append(KafkaKeys(), "topics", "group", "session") {
		if s.knows(key); s.Has(key) {
			s.Problem(key, `belongs to type = "kafka"`)
		}
	}
}
