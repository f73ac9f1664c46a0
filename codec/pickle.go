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

	"replicator"
)

// A pickle is a program for a small stack machine, which Python's pickletools documents. This decoder runs the
// instructions of protocols 0 to 5, and never looks up or calls anything that a pickle names. It knows the standard
// library's classes for plain data; an object of any other class becomes a replicator.Unread.

// unpickler is the stack machine. Lists and dictionaries stay pyList and pyDict until the end, because a pickle may put
// a list into another one and change it afterwards. Then the resolver converts them.
type unpickler struct {
	data  []byte
	pos   int
	stack []any
	marks []int // the size of the stack at each mark, which MARK instructions set
	memo  map[uint64]any

	steps int // how many more values may be pushed or stored; a mark counts as a value
	room  int // how many more bytes may be copied from strings that the pickle contains
}

type (
	pyBytes string
	py16    string // 16 bytes that Python 3 wrote as bytes: never text, even if they look like text
	pyList  struct{ items []any }
	pyDict  struct{ items []any } // keys and values in turn
	pyClass string                // the class with its module, such as datetime.date
)

var errPickleStack = errors.New("the pickle takes a value that is not on its stack")

// maxSteps limits how many values a pickle may push and store while it runs. It is higher than MaxValues, because
// Python also stores most values in the pickle's memo, which is another step. The result has limits of its own, because
// a pickle can use one list many times.
const maxSteps = 3 * MaxValues

func decodePickle(body []byte, w *wanted) (any, error) {
	u := &unpickler{data: body, memo: map[uint64]any{}, steps: maxSteps, room: MaxSize}
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
	r := resolver{budget: MaxValues, bytes: MaxSize}
	if dict, ok := v.(*pyDict); ok && w != nil {
		return r.wanted(dict, w)
	}
	return r.value(v, 0)
}

var errSteps = fmt.Errorf("the pickle has more than %d instructions that make values", maxSteps)

func (u *unpickler) charge(steps, bytes int) error {
	u.steps -= steps
	u.room -= bytes
	switch {
	case u.steps < 0:
		return errSteps
	case u.room < 0:
		return errExpanded
	}
	return nil
}

func (u *unpickler) step(op byte) error {
	if done, err := u.scalar(op); done || err != nil {
		return err
	}
	switch op {
	case 0x80: // opcode PROTO: the version of the protocol
		v, err := u.take(1)
		if err == nil && v[0] > 5 {
			return fmt.Errorf("pickle protocol %d is newer than 5", v[0])
		}
		return err
	case 0x95: // opcode FRAME: only a hint for readers of files
		_, err := u.take(8)
		return err
	case '(':
		u.marks = append(u.marks, len(u.stack))
		return u.charge(1, 0)
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
	case ']', 0x8f: // opcodes EMPTY_LIST, EMPTY_SET
		return u.push(&pyList{}, nil)
	case ')':
		return u.push(&pyList{}, nil)
	case '}':
		return u.push(&pyDict{}, nil)
	case 'l', 't', 0x91: // opcodes LIST, TUPLE, FROZENSET
		items, err := u.popMark()
		return u.push(&pyList{items: items}, err)
	case 0x85, 0x86, 0x87: // opcodes TUPLE1 to TUPLE3
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
	case 'e', 0x90: // opcodes APPENDS, ADDITEMS
		items, err := u.popMark()
		return u.extendList(items, err)
	case 's':
		items, err := u.popN(2)
		return u.extendDict(items, err)
	case 'u':
		items, err := u.popMark()
		return u.extendDict(items, err)
	case 'c', 0x93, 'i', 'o', 'b', 'R', 0x81, 0x92, 0x82, 0x83, 0x84, 'P', 'Q':
		return u.class(op)
	case 0x97: // opcode NEXT_BUFFER: the data is outside of the pickle
		return u.push(&pyObject{class: "of a buffer"}, nil)
	case 0x98: // opcode READONLY_BUFFER: only marks the value on the stack
		_, err := u.top()
		return err
	}
	return u.memory(op)
}

// memory runs the instructions that store values in the memo, the pickle's table of numbered values, and load them.
func (u *unpickler) memory(op byte) error {
	var n uint64
	var err error
	switch op {
	case 'p', 'g': // opcodes PUT, GET: the number is a line of text
		var line []byte
		if line, err = u.line(); err == nil {
			if n, err = strconv.ParseUint(string(line), 10, 32); err != nil {
				err = errors.New("the pickle contains an invalid memo index")
			}
		}
	case 'q', 'h': // opcodes BINPUT, BINGET: the number is one byte
		n, err = u.uint(1)
	case 'r', 'j': // opcodes LONG_BINPUT, LONG_BINGET: the number is four bytes
		n, err = u.uint(4)
	case 0x94: // opcode MEMOIZE: the number is not in the pickle, but is the number of memo entries so far
		n = uint64(len(u.memo))
	default:
		return fmt.Errorf("the pickle contains the unknown instruction 0x%02x", op)
	}
	if err != nil {
		return err
	}
	if op == 'g' || op == 'h' || op == 'j' {
		v, ok := u.memo[n]
		if !ok {
			return errors.New("the pickle loads a memo entry that it did not store")
		}
		return u.push(v, nil)
	}
	if u.memo[n], err = u.top(); err != nil {
		return err
	}
	return u.charge(1, 0)
}

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
			v = finite(math.Float64frombits(binary.BigEndian.Uint64(b)))
		}
	case 'S', 'V':
		v, err = u.textLine(op)
	case 'U':
		v, err = u.bytes(1)
	case 'T':
		v, err = u.bytes(4)
	case 'C':
		v, err = python3(u.bytes(1))
	case 'B':
		v, err = python3(u.bytes(4))
	case 0x8e, 0x96:
		v, err = python3(u.bytes(8))
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
	if err != nil {
		return err
	}
	u.stack = append(u.stack, v)
	return u.charge(1, 0)
}

// floor returns the size of the stack at the last mark. Instructions can't pop values below a mark.
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

// popN pops the last n values. The caller may keep the slice.
func (u *unpickler) popN(n int) ([]any, error) {
	from := len(u.stack) - n
	if from < u.floor() {
		return nil, errPickleStack
	}
	items := slices.Clone(u.stack[from:])
	u.stack = u.stack[:from]
	return items, nil
}

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
	switch list := v.(type) {
	case *pyList:
		list.items = append(list.items, items...)
	case *pyObject: // an object of a class that extends list: the elements are ignored
	default:
		err = errPickleStack
	}
	return err
}

func (u *unpickler) extendDict(items []any, err error) error {
	if err != nil {
		return err
	}
	v, err := u.top()
	if err != nil || len(items)%2 != 0 {
		return errPickleStack
	}
	switch dict := v.(type) {
	case *pyDict:
		dict.items = append(dict.items, items...)
	case *pyObject: // an object of a class that extends dict: the members are ignored
	default:
		err = errPickleStack
	}
	return err
}

// resolver converts the result of the unpickler to values as the other formats have them. A value that the pickle uses
// several times is copied, and every copy counts against the limits.
type resolver struct {
	budget int // how many more values the result may have: see MaxValues
	bytes  int // how many more bytes the result's strings and byte strings may have: see MaxSize
}

var errExpanded = fmt.Errorf("the pickle expands to more than %d MiB", MaxSize>>20)

func (r *resolver) value(v any, depth int) (any, error) {
	if r.budget--; r.budget < 0 {
		return nil, errMany
	}
	if depth > MaxDepth {
		return nil, errDepth
	}
	switch v := v.(type) {
	case py16:
		if r.bytes -= len(v); r.bytes < 0 {
			return nil, errExpanded
		}
		return []byte(v), nil
	case pyBytes:
		if r.bytes -= len(v); r.bytes < 0 {
			return nil, errExpanded
		}
		r.budget -= len(v) / 16 // byte strings are copied, so 16 bytes count as a value
		return textOrBytes(string(v)), nil
	case string:
		if r.bytes -= len(v); r.bytes < 0 {
			return nil, errExpanded
		}
	case pyClass:
		return replicator.Unread(fmt.Sprintf("the Python class %.60q", string(v))), nil
	case *pyObject:
		if err := r.charge(v); err != nil {
			return nil, err
		}
		return v.value(), nil
	case *pyList:
		list := make([]any, len(v.items))
		for i, item := range v.items {
			var err error
			if list[i], err = r.value(item, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *pyDict:
		return r.members(v, depth)
	}
	return v, nil
}

func (r *resolver) charge(o *pyObject) error {
	for _, a := range o.arguments {
		text, _ := textOf(a)
		r.bytes -= len(text)
	}
	if state, ok := o.state.(*pyDict); ok {
		r.budget -= len(state.items)
	}
	switch {
	case r.bytes < 0:
		return errExpanded
	case r.budget < 0:
		return errMany
	}
	return nil
}

func (r *resolver) wanted(v *pyDict, w *wanted) (any, error) {
	for i := 0; i < len(v.items); i += 2 {
		key, err := r.value(v.items[i], 1)
		if err != nil {
			return nil, err
		}
		name, err := memberName(key)
		if err != nil {
			return nil, err
		}
		r.budget++ // MaxValues does not count the names of the body's own members
		if at := w.names.find([]byte(name)); at >= 0 {
			if w.values[at], err = r.value(v.items[i+1], 1); err != nil {
				return nil, err
			}
		}
	}
	return replicator.Object(nil), nil
}

// members converts a dictionary to an object. If a key is neither text nor an integer, the dictionary becomes Unread,
// or an error if it is the whole body (depth 0).
func (r *resolver) members(v *pyDict, depth int) (any, error) {
	all := make([]replicator.Member, 0, len(v.items)/2)
	for i := 0; i < len(v.items); i += 2 {
		key, err := r.value(v.items[i], depth+1)
		if err != nil {
			return nil, err
		}
		member, err := r.value(v.items[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		name, err := memberName(key)
		switch {
		case err == nil:
			all = append(all, replicator.Member{Name: name, Value: member})
		case depth > 0:
			return replicator.Unread("a map with a key that is neither text nor an integer"), nil
		default:
			return nil, err
		}
	}
	return replicator.MakeObject(all), nil
}

// long reads a little-endian integer in two's complement. Its length comes first and takes n bytes.
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
