// Package kafkaclient makes Kafka clients: the options of their connections, and a Close that ends in time.
package kafkaclient

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Mechanisms are the supported SASL mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Access says how to reach a cluster.
type Access struct {
	Brokers   []string    // HOST:PORT of the brokers to ask first
	TLS       *tls.Config // nil: no TLS
	Mechanism string      // the SASL mechanism; "": no SASL
	Username  string
	Password  string
	Timeout   time.Duration // a connection without an answer for that long is lost; 0: 10 s
}

// Options returns the options for every connection.
func (a Access) Options() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(a.Brokers...)}
	if a.TLS != nil {
		options = append(options, kgo.DialTLSConfig(a.TLS))
	}
	if a.Timeout > 0 {
		options = append(options, kgo.DialTimeout(a.Timeout), kgo.RequestTimeoutOverhead(a.Timeout))
	}
	switch login := (scram.Auth{User: a.Username, Pass: a.Password}); a.Mechanism {
	case "":
	case Plain:
		options = append(options, kgo.SASL(plain.Auth{User: a.Username, Pass: a.Password}.AsMechanism()))
	case ScramSHA256:
		options = append(options, kgo.SASL(login.AsSha256Mechanism()))
	case ScramSHA512:
		options = append(options, kgo.SASL(login.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("kafka: unknown SASL mechanism %q", a.Mechanism)
	}
	return options, nil
}
