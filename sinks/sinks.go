// Package sinks lists the types of sink that the program has. To add a type, add a package in this folder and a line
// here.
package sinks

import (
	"replicator/config"
	"replicator/sinks/elastic"
	"replicator/sinks/kafka"
	"replicator/sinks/mysql"
	"replicator/sinks/redis"
)

// Types returns all types of sink, in the order in which messages name them.
func Types() []config.SinkType {
	return []config.SinkType{
		mysql.Type(),
		redis.Type(),
		elastic.Type(),
		kafka.Type(),
	}
}
