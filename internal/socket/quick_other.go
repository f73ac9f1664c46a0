//go:build !linux || !(amd64 || arm64) || race

package socket

import "net"

// Quick is c: its reads and writes are made cheap on Linux alone.
func Quick(c net.Conn) net.Conn { return c }
