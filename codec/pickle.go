package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Pickles are programs for a small stack machine (pickletools in Python's library documents it). This one knows the
// instructions of protocols 0 to 5 that build plain values, and a closed list of harmless classes (see construct): nothing
// that a pickle says is ever looked up or called.
//
// A dictionary's members are as in every format. Lists, tuples and sets are []any. unicode is text; Python 2's str and
// Python 3's bytes are text if they look like it (see textOrBytes), because Python 2 has no other way to write text.

// unpickler is the machine. Values on its stack are those of this package, but for the types below, which convert makes
// final: a list or dictionary may be changed after it was stored in another.
type unpickler struct {
	data  []byte
	pos   int
	stack []any
	marks []int // places in stack
	memo  map[uint64]any
}

type (
	pyBytes string
	pyList  struct{ items []any }
	pyDict  struct{ items []any } // key, value, key, value …
	pyClass string                // module.name
)

var errPickleStack = errors.New("the pickle takes a value that is not there")

// maxExpanded bounds how many values a pickle may stand for: it can name one list many times in lists that it names many
// times.
const maxExpanded = 1_000_000

func decodePickle(body []byte) (any, error) {
	u := &unpickler{data: body, memo: map[uint64]any{}}
	for {
		if u.pos == len(u.data) {
			return nil, errShort
		}
		at := u.pos
		op := u.data[at]
		u.pos++
		if op == '.' {
			break
		}
		if err := u.step(op); err != nil {
			return nil, fmt.Errorf("%w, at offset %d", err, at)
		}
	}
	if u.pos != len(u.data) {
		return nil, errTrailing
	}
	v, err := u.pop()
	if err != nil {
		return nil, err
	}
	budget := maxExpanded
	return convert(v, 0, &budget)
}

// step runs one instruction.
func (u *unpickler) step(op byte) error {
	if done, err := u.scalar(op); done || err != nil {
		return err
	}
	switch op {
	case 0x80: // PROTO
		v, err := u.take(1)
		if err == nil && v[0] > 5 {
			return fmt.Errorf("pickle protocol %d is newer than 5", v[0])
		}
		return err
	case 0x95: // FRAME: a hint for readers of files
		_, err := u.take(8)
		return err
	case '(':
		u.marks = append(u.marks, len(u.stack))
		return nil
	case '0':
		if len(u.stack) == u.floor() {
			_, err := u.popMark()
			return err
		}
		_, err := u.pop()
		return err
	case '1':
		_, err := u.popMark()
		return err
	case '2':
		v, err := u.top()
		return u.push(v, err)
	case ']', 0x8f: // EMPTY_LIST, EMPTY_SET
		return u.push(&pyList{}, nil)
	case ')':
		return u.push(&pyList{}, nil)
	case '}':
		return u.push(&pyDict{}, nil)
	case 'l', 't', 0x91: // LIST, TUPLE, FROZENSET
		items, err := u.popMark()
		return u.push(&pyList{items: items}, err)
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		items, err := u.popN(int(op) - 0x84)
		return u.push(&pyList{items: items}, err)
	case 'd':
		items, err := u.popMark()
		if err == nil && len(items)%2 != 0 {
			err = errPickleStack
		}
		return u.push(&pyDict{items: items}, err)
	case 'a':
		items, err := u.popN(1)
		return u.extendList(items, err)
	case 'e', 0x90: // APPENDS, ADDITEMS
		items, err := u.popMark()
		return u.extendList(items, err)
	case 's':
		items, err := u.popN(2)
		return u.extendDict(items, err)
	case 'u':
		items, err := u.popMark()
		return u.extendDict(items, err)
	case 'c', 0x93, 'R': // GLOBAL, STACK_GLOBAL, REDUCE
		return u.class(op)
	}
	return u.memory(op)
}

// memory runs the instructions that name values for later.
func (u *unpickler) memory(op byte) error {
	var n uint64
	var err error
	switch op {
	case 'p', 'g': // PUT, GET
		var line []byte
		if line, err = u.line(); err == nil {
			if n, err = strconv.ParseUint(string(line), 10, 32); err != nil {
				err = errors.New("a memo's number is none")
			}
		}
	case 'q', 'h': // BINPUT, BINGET
		n, err = u.uint(1)
	case 'r', 'j': // LONG_BINPUT, LONG_BINGET
		n, err = u.uint(4)
	case 0x94: // MEMOIZE
		n = uint64(len(u.memo))
	default:
		return fmt.Errorf("the pickle holds an object of a class (instruction 0x%02x); only plain values can be read", op)
	}
	if err != nil {
		return err
	}
	if op == 'g' || op == 'h' || op == 'j' {
		v, ok := u.memo[n]
		if !ok {
			return errors.New("the pickle names a value that it did not store")
		}
		return u.push(v, nil)
	}
	u.memo[n], err = u.top()
	return err
}

// scalar runs the instructions that push a number, a text or a constant.
func (u *unpickler) scalar(op byte) (done bool, err error) {
	var v any
	switch op {
	case 'N':
	case 0x88, 0x89:
		v = op == 0x88
	case 'I', 'L', 'F':
		v, err = u.numberLine(op)
	case 'K':
		v, err = u.unsigned(1)
	case 'M':
		v, err = u.unsigned(2)
	case 'J':
		var n uint64
		n, err = u.uint(4)
		v = int64(int32(uint32(n)))
	case 0x8a:
		v, err = u.long(1)
	case 0x8b:
		v, err = u.long(4)
	case 'G':
		var b []byte
		if b, err = u.take(8); err == nil {
			v, err = finite(math.Float64frombits(binary.BigEndian.Uint64(b)))
		}
	case 'S', 'V':
		v, err = u.textLine(op)
	case 'U', 'C':
		v, err = u.bytes(1)
	case 'T', 'B':
		v, err = u.bytes(4)
	case 0x8e, 0x96:
		v, err = u.bytes(8)
	case 0x8c:
		v, err = u.text(1)
	case 'X':
		v, err = u.text(4)
	case 0x8d:
		v, err = u.text(8)
	default:
		return false, nil
	}
	return true, u.push(v, err)
}

func (u *unpickler) push(v any, err error) error {
	if err == nil {
		u.stack = append(u.stack, v)
	}
	return err
}

// floor is how much of the stack is out of reach below the last mark.
func (u *unpickler) floor() int {
	if len(u.marks) == 0 {
		return 0
	}
	return u.marks[len(u.marks)-1]
}

func (u *unpickler) top() (any, error) {
	if len(u.stack) <= u.floor() {
		return nil, errPickleStack
	}
	return u.stack[len(u.stack)-1], nil
}

func (u *unpickler) pop() (any, error) {
	v, err := u.top()
	if err == nil {
		u.stack = u.stack[:len(u.stack)-1]
	}
	return v, err
}

// popN takes the last n values; they are the caller's.
func (u *unpickler) popN(n int) ([]any, error) {
	from := len(u.stack) - n
	if from < u.floor() {
		return nil, errPickleStack
	}
	items := slices.Clone(u.stack[from:])
	u.stack = u.stack[:from]
	return items, nil
}

// popMark takes the values since the last mark, and the mark.
func (u *unpickler) popMark() ([]any, error) {
	if len(u.marks) == 0 {
		return nil, errPickleStack
	}
	items, err := u.popN(len(u.stack) - u.floor())
	u.marks = u.marks[:len(u.marks)-1]
	return items, err
}

func (u *unpickler) extendList(items []any, err error) error {
	if err != nil {
		return err
	}
	v, err := u.top()
	list, ok := v.(*pyList)
	if err == nil && !ok {
		err = errPickleStack
	}
	if err == nil {
		list.items = append(list.items, items...)
	}
	return err
}

func (u *unpickler) extendDict(items []any, err error) error {
	if err != nil {
		return err
	}
	v, err := u.top()
	dict, ok := v.(*pyDict)
	if err == nil && (!ok || len(items)%2 != 0) {
		err = errPickleStack
	}
	if err == nil {
		dict.items = append(dict.items, items...)
	}
	return err
}

// class runs the instructions that name a class and make an object of one.
func (u *unpickler) class(op byte) error {
	switch op {
	case 'c':
		module, err := u.line()
		if err != nil {
			return err
		}
		name, err := u.line()
		return u.push(pyClass(string(module)+"."+string(name)), err)
	case 0x93:
		items, err := u.popN(2)
		if err != nil {
			return err
		}
		module, _ := items[0].(string)
		name, _ := items[1].(string)
		return u.push(pyClass(module+"."+name), nil)
	}
	items, err := u.popN(2)
	if err != nil {
		return err
	}
	class, _ := items[0].(pyClass)
	arguments, ok := items[1].(*pyList)
	if !ok {
		return errPickleStack
	}
	v, ok := construct(string(class), arguments.items)
	if !ok {
		return fmt.Errorf("the pickle holds an object of class %.60q; only plain values can be read", string(class))
	}
	return u.push(v, nil)
}

// construct makes the objects that Python writes plain values as: bytes, sets and byte arrays in old protocols, and ordered
// dictionaries.
func construct(class string, arguments []any) (any, bool) {
	module, name, _ := strings.Cut(class, ".")
	if module == "__builtin__" || module == "builtins" {
		class = name
	}
	switch class {
	case "_codecs.encode": // bytes, by Python 3 in protocols 0 to 2
		if len(arguments) == 2 {
			text, isText := arguments[0].(string)
			encoding, _ := arguments[1].(string)
			if raw, ok := latin1(text); ok && isText && encoding == "latin1" {
				return pyBytes(raw), true
			}
		}
	case "bytes", "bytearray":
		if len(arguments) == 0 {
			return pyBytes(""), true
		}
		if raw, ok := arguments[0].(pyBytes); ok && len(arguments) == 1 {
			return raw, true
		}
	case "set", "frozenset":
		if len(arguments) == 0 {
			return &pyList{}, true
		}
		if list, ok := arguments[0].(*pyList); ok && len(arguments) == 1 {
			return list, true
		}
	case "collections.OrderedDict":
		if len(arguments) == 0 {
			return &pyDict{}, true
		}
		if list, ok := arguments[0].(*pyList); ok && len(arguments) == 1 {
			return orderedDict(list.items)
		}
	}
	return nil, false
}

// orderedDict makes a dictionary of a list of pairs.
func orderedDict(pairs []any) (any, bool) {
	d := &pyDict{}
	for _, p := range pairs {
		pair, ok := p.(*pyList)
		if !ok || len(pair.items) != 2 {
			return nil, false
		}
		d.items = append(d.items, pair.items...)
	}
	return d, true
}

// convert makes the values final. Values that the pickle names several times are copied.
func convert(v any, depth int, budget *int) (any, error) {
	if *budget--; *budget < 0 {
		return nil, fmt.Errorf("the pickle stands for more than %d values", maxExpanded)
	}
	if depth > MaxDepth {
		return nil, errDepth
	}
	switch v := v.(type) {
	case pyBytes:
		*budget -= len(v) / 16 // bytes are copied
		return textOrBytes(string(v)), nil
	case pyClass:
		return nil, fmt.Errorf("the pickle holds the class %.60q; only plain values can be read", string(v))
	case *pyList:
		list := make([]any, len(v.items))
		for i, item := range v.items {
			var err error
			if list[i], err = convert(item, depth+1, budget); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *pyDict:
		m := make(map[string]any, len(v.items)/2)
		for i := 0; i < len(v.items); i += 2 {
			key, err := convert(v.items[i], depth+1, budget)
			if err != nil {
				return nil, err
			}
			name, err := memberName(key)
			if err != nil {
				return nil, err
			}
			if m[name], err = convert(v.items[i+1], depth+1, budget); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return v, nil
}

// long reads a little-endian integer in two's complement, whose length stands in n bytes before it.
func (u *unpickler) long(n int) (any, error) {
	size, err := u.uint(n)
	if err != nil {
		return nil, err
	}
	if size > maxInteger {
		return nil, errLongDigit
	}
	b, err := u.take(size)
	if err != nil {
		return nil, err
	}
	b = bytes.Clone(b)
	slices.Reverse(b)
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return bigInteger(v), nil
}
