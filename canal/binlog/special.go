package binlog

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"replicator/internal/uuid"
)

// mariaSpecial prints MariaDB's UUID, INET4 and INET6 values. In the binlog they are bytes of a fixed size, like a
// BINARY.
func mariaSpecial(k Kind, data []byte) (any, error) {
	n := 16
	if k == KindInet4 {
		n = 4
	}
	if len(data) > n {
		return nil, fmt.Errorf("the value has %d bytes instead of %d", len(data), n)
	}
	b := Padded(data, n)
	switch k {
	case KindInet4:
		return netip.AddrFrom4([4]byte(b)).String(), nil
	case KindInet6:
		return inet6([16]byte(b)), nil
	}
	// The binlog has a UUID's bytes in the order in which MariaDB prints them, although MariaDB sorts UUIDs in another
	// order.
	return uuid.Text(b), nil
}

// inet6 prints an address as MariaDB does. "::" stands for the first of the longest runs of zero groups, even for a
// single group. An embedded IPv4 address keeps its dots, mapped (::ffff:192.0.2.1) or compatible (::192.0.2.1).
func inet6(b [16]byte) string {
	var groups [8]uint16
	for i := range groups {
		groups[i] = binary.BigEndian.Uint16(b[2*i:])
	}
	gap, gapLen := -1, 0
	for i := 0; i < len(groups); i++ {
		n := 0
		for i+n < len(groups) && groups[i+n] == 0 {
			n++
		}
		if n > gapLen {
			gap, gapLen = i, n
		}
		i += n
	}
	out := make([]byte, 0, 45)
	for i := 0; i < len(groups); i++ {
		switch {
		case i == gap:
			out = append(out, "::"...)
			i += gapLen - 1
		case i == 6 && gap == 0 && (gapLen == 6 || gapLen == 5 && groups[5] == 0xffff):
			if gapLen == 5 {
				out = append(out, ':')
			}
			return string(netip.AddrFrom4([4]byte(b[12:])).AppendTo(out))
		default:
			if i > 0 && i != gap+gapLen {
				out = append(out, ':')
			}
			out = strconv.AppendUint(out, uint64(groups[i]), 16)
		}
	}
	return string(out)
}
