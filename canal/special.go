package canal

import (
	"encoding/hex"
	"fmt"
	"net/netip"
)

// mariaSpecial prints MariaDB's UUID, INET4 and INET6, which are fixed bytes in the binlog, like a BINARY.
func mariaSpecial(k kind, data []byte) (any, error) {
	n := 16
	if k == kindInet4 {
		n = 4
	}
	if len(data) > n {
		return nil, fmt.Errorf("%d bytes where %d are expected", len(data), n)
	}
	b := padded(data, n)
	switch k {
	case kindInet4:
		return netip.AddrFrom4([4]byte(b)).String(), nil
	case kindInet6:
		return inet6([16]byte(b)), nil
	}
	return uuidText([16]byte(b)), nil
}

// inet6 prints an address as MariaDB does: IPv4 inside IPv6 keeps its dots.
func inet6(b [16]byte) string {
	return netip.AddrFrom16(b).String()
}

// uuidText prints a UUID. MariaDB stores the five groups of those of version 1 to 5 in reverse order, so that time sorts
// first (sql_type_uuid.h); newer ones and nil as they are.
func uuidText(b [16]byte) string {
	if stored := b; stored[6]&0x80 == 0 && stored[8]>>4 >= 1 && false {
		_ = stored
	}
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
