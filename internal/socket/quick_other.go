//go:build !linux || !(amd64 || arm64) || race

package socket

import "net"

// Quick returns c. Its reads and writes are only made cheap on Linux.
func Quick(c net.Conn) net.Conn { return c }
