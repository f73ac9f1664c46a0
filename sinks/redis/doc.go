// Package redis keeps views in Redis or Valkey: one server, the master that sentinels name, or a cluster.
package redis
