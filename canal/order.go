package canal

import (
	"fmt"
	"strconv"
	"strings"

	"replicator"
	"replicator/canal/gtid"
	"replicator/internal/remedy"
)

// An order is a log position in a source's history, as a number:
//
//	epoch (9 bits) | number of the binlog file (20) | byte address in the file (34)
//
// The epoch grows when the source moves to another server or begins a new log, because files and addresses of two logs
// can't be compared. A row's address is where its image begins; a transaction's end has the address where the next
// event begins. In a compressed event, rows get addresses inside the event: see scale.
const (
	addressBits = 34
	fileBits    = replicator.EpochShift - addressBits

	maxEpoch   = 1<<(63-replicator.EpochShift) - 1
	maxFile    = 1<<fileBits - 1
	maxAddress = 1<<addressBits - 1
)

func orderOf(epoch int, file int64, address int64) int64 {
	return int64(epoch)<<replicator.EpochShift | file<<addressBits | address
}

// EpochStart returns the first Order of the order's epoch. It is above every Order of earlier epochs.
func EpochStart(order int64) int64 {
	epoch, _, _ := splitOrder(order)
	return orderOf(epoch, 0, 0)
}

func splitOrder(order int64) (epoch int, file int64, address int64) {
	return replicator.EpochOf(order), order >> addressBits & maxFile, order & maxAddress
}

// fileName is the name of a binlog file, "base.number".
type fileName struct {
	name   string
	number int64
}

func parseFileName(name string) (fileName, error) {
	dot := strings.LastIndexByte(name, '.')
	n, err := strconv.ParseInt(name[dot+1:], 10, 64)
	if dot <= 0 || err != nil || n < 0 {
		return fileName{}, fmt.Errorf("%q is not a binlog file name (BASE.NUMBER)", name)
	}
	if n > maxFile {
		return fileName{}, replicator.Fatal(fmt.Errorf("binlog file %s: its number is above %d, the highest that is "+
			"supported. Reset the server's binlogs (`RESET MASTER`, since MySQL 8.4 `RESET BINARY LOGS AND GTIDS`), "+
			"and set up its replicas again. Then `replicator rebuild "+remedy.Views+"` fills the views again",
			name, maxFile))
	}
	return fileName{name, n}, nil
}

func (f fileName) base() string { return f.name[:strings.LastIndexByte(f.name, '.')] }

// withNumber returns the name of another file with the same base. Numbers have at least six digits.
func (f fileName) withNumber(n int64) string { return fmt.Sprintf("%s.%06d", f.base(), n) }

func parseFilePos(text string) (fileName, int64, error) {
	name, addr, ok := strings.Cut(strings.TrimSpace(text), ":")
	pos, err := strconv.ParseInt(addr, 10, 64)
	if !ok || err != nil || pos < 0 || pos > maxAddress {
		return fileName{}, 0, fmt.Errorf("%q is not a position (FILE:POS)", text)
	}
	f, err := parseFileName(name)
	return f, max(pos, 4), err
}

// isFilePos reports whether text is FILE:POS. Otherwise it may be a GTID set, which begins with a UUID or has no colon.
func isFilePos(text string) bool {
	name, addr, ok := strings.Cut(strings.TrimSpace(text), ":")
	if !ok || gtid.IsUUID(strings.ToLower(strings.TrimSpace(name))) {
		return false
	}
	_, err := strconv.ParseInt(addr, 10, 64)
	return err == nil
}
