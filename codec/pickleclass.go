package codec

import (
	"fmt"
	"math/big"
	"strings"

	"replicator"
	"replicator/internal/jsonscan"
	"replicator/internal/uuid"
)

// pyObject is an object of a Python class: its class, arguments and state. No Python code runs.
type pyObject struct {
	class     string
	arguments []any
	state     any // set by the opcode BUILD
}

func (u *unpickler) class(op byte) error {
	switch op {
	case 'c': // opcode GLOBAL: a class, by its name
		class, err := u.classLines()
		return u.push(class, err)
	case 0x93: // opcode STACK_GLOBAL: a class, by its name on the stack
		items, err := u.popN(2)
		if err != nil {
			return err
		}
		module, _ := items[0].(string)
		name, _ := items[1].(string)
		if err := u.charge(0, len(module)+len(name)); err != nil {
			return err
		}
		return u.push(pyClass(module+"."+name), nil)
	case 'i', 'o': // opcodes INST, OBJ: objects of old-style classes, which Python 2 writes
		return u.instance(op)
	case 'b': // opcode BUILD: sets an object's state
		items, err := u.popN(1)
		if err != nil {
			return err
		}
		v, err := u.top()
		if object, ok := v.(*pyObject); ok {
			object.state = items[0]
		}
		return err // if v is a list or a dictionary, its attributes are dropped
	case 0x82, 0x83, 0x84: // opcodes EXT1, EXT2, EXT4: a class, by its number in a registry of the writer
		n, err := u.uint(1 << (op - 0x82))
		return u.push(pyClass(fmt.Sprintf("of extension code %d", n)), err)
	case 'P': // opcode PERSID: an object outside of the pickle, by its id
		_, err := u.line()
		return u.push(&pyObject{class: "of a persistent id"}, err)
	case 'Q': // opcode BINPERSID: an object outside of the pickle, by its id on the stack
		_, err := u.popN(1)
		return u.push(&pyObject{class: "of a persistent id"}, err)
	}
	return u.construct(op)
}

func (u *unpickler) classLines() (pyClass, error) {
	module, err := u.line()
	if err != nil {
		return "", err
	}
	name, err := u.line()
	return pyClass(string(module) + "." + string(name)), err
}

func (u *unpickler) instance(op byte) error {
	var class pyClass
	var err error
	if op == 'i' {
		if class, err = u.classLines(); err != nil {
			return err
		}
	}
	items, err := u.popMark()
	if err != nil {
		return err
	}
	if op == 'o' {
		if len(items) == 0 {
			return errPickleStack
		}
		class, _ = items[0].(pyClass)
		items = items[1:]
	}
	return u.call(class, items)
}

// construct runs the instructions that call a class: REDUCE, NEWOBJ, NEWOBJ_EX.
func (u *unpickler) construct(op byte) error {
	n := 2
	if op == 0x92 { // opcode NEWOBJ_EX: pops named arguments, too, which are ignored
		n = 3
	}
	items, err := u.popN(n)
	if err != nil {
		return err
	}
	class, _ := items[0].(pyClass)
	arguments, ok := items[1].(*pyList)
	if !ok {
		return errPickleStack
	}
	return u.call(class, arguments.items)
}

// call pushes the object that a class creates from arguments. It first counts the bytes that would be copied, because a
// pickle may use the same arguments many times.
func (u *unpickler) call(class pyClass, arguments []any) error {
	steps, bytes := 0, 0
	for _, a := range arguments {
		switch a := a.(type) {
		case string:
			bytes += len(a)
		case pyClass:
			bytes += len(a)
		case *pyList:
			if strings.HasPrefix(string(class), "collections.") {
				steps += 2 * len(a.items)
			}
		}
	}
	if err := u.charge(steps, bytes); err != nil {
		return err
	}
	return u.push(construct(class, arguments), nil)
}

// construct creates the containers that Python writes as calls of a class: bytes, sets, byte arrays and the standard
// library's collections. Other objects stay a pyObject until the end, when their state is known.
func construct(class pyClass, arguments []any) any {
	name := string(class)
	if module, rest, _ := strings.Cut(name, "."); module == "__builtin__" || module == "builtins" {
		name = rest
	}
	one := func() any {
		if len(arguments) == 1 {
			return arguments[0]
		}
		return nil
	}
	switch name {
	case "_codecs.encode": // in protocols 0 to 2, Python 3 writes a bytes object as a call of this function
		if len(arguments) == 2 {
			text, isText := arguments[0].(string)
			encoding, _ := arguments[1].(string)
			if raw, ok := latin1(text); ok && isText && encoding == "latin1" {
				v, _ := python3(pyBytes(raw), nil)
				return v
			}
		}
	case "bytes", "bytearray":
		if len(arguments) == 0 {
			return pyBytes("")
		}
		switch raw := one().(type) {
		case pyBytes, py16:
			return raw
		}
	case "set", "frozenset", "collections.deque":
		if len(arguments) == 0 {
			return &pyList{}
		}
		if list, ok := arguments[0].(*pyList); ok {
			return list
		}
	case "collections.OrderedDict", "collections.Counter", "collections.defaultdict":
		if dict, ok := dictionary(name, arguments); ok {
			return dict
		}
	case "getattr": // protocols below 4 write a nested class as getattr(outer class, name)
		if len(arguments) == 2 {
			outer, isClass := arguments[0].(pyClass)
			inner, isText := textOf(arguments[1])
			if isClass && isText {
				return outer + "." + pyClass(inner)
			}
		}
	case "copy_reg._reconstructor", "copyreg._reconstructor": // arguments: a class, its base class and the base's state
		if len(arguments) == 3 {
			if of, ok := arguments[0].(pyClass); ok {
				return &pyObject{class: string(of)}
			}
		}
	}
	return &pyObject{class: string(class), arguments: arguments}
}

// dictionary creates a dictionary of the standard library. The arguments are empty, pairs or another dictionary. A
// defaultdict has one more argument before these: a factory for missing members, which is ignored.
func dictionary(class string, arguments []any) (any, bool) {
	if class == "collections.defaultdict" && len(arguments) > 0 {
		arguments = arguments[1:]
	}
	if len(arguments) != 1 {
		return &pyDict{}, len(arguments) == 0
	}
	switch v := arguments[0].(type) {
	case *pyDict:
		return v, true
	case *pyList:
		return orderedDict(v.items)
	}
	return nil, false
}

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

func (o *pyObject) value() any {
	var v any
	switch o.class {
	case "datetime.datetime":
		v = o.datetime()
	case "datetime.date":
		v = o.date()
	case "datetime.time":
		v = o.clock()
	case "datetime.timedelta":
		v = o.timedelta()
	case "decimal.Decimal", "_decimal.Decimal", "_pydecimal.Decimal", "cdecimal.Decimal":
		v = o.decimal()
	case "uuid.UUID":
		v = o.uuid()
	default:
		return replicator.Unread(fmt.Sprintf("an object of the Python class %.60q", o.class))
	}
	if v == nil {
		return replicator.Unread(fmt.Sprintf("an object of the Python class %.60q with an invalid state", o.class))
	}
	return v
}

// textOf returns the text of a Python 2 str or of a unicode value.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case pyBytes:
		return string(v), true
	case py16:
		return string(v), true
	}
	return "", false
}

func (o *pyObject) decimal() any {
	if len(o.arguments) != 1 {
		return nil
	}
	text, ok := textOf(o.arguments[0])
	if !ok {
		return nil
	}
	s := scanner{Scanner: jsonscan.Scanner{Data: []byte(text)}}
	raw, integral, err := s.Number()
	switch {
	case err != nil && strings.ContainsAny(text, "Nn"): // such as NaN, sNaN12, Infinity
		return notFinite
	case err != nil || s.Pos < len(text):
		return nil
	}
	return s.numberValue(raw, integral)
}

// uuid converts a UUID, whose number is the item "int" of the object's state.
func (o *pyObject) uuid() any {
	state, _ := o.state.(*pyDict)
	if state == nil {
		return nil
	}
	for i := 0; i+1 < len(state.items); i += 2 {
		if name, _ := textOf(state.items[i]); name != "int" {
			continue
		}
		n, ok := new(big.Int).SetString(replicator.FormatValue(state.items[i+1]), 10)
		if !ok || n.Sign() < 0 || n.BitLen() > 128 {
			return nil
		}
		return uuid.Text(n.FillBytes(make([]byte, 16)))
	}
	return nil
}
