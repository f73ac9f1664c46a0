package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestMembersAreTheTextsOfAnObject(t *testing.T) {
	var got []string
	err := Members([]byte(` {"a": [1, {"b":2}] ,"\u0062":"x\n", "c":null} `), func(name, value []byte) error {
		got = append(got, string(name)+"="+string(value))
		return nil
	})
	if want := `a=[1, {"b":2}]|b="x\n"|c=null`; err != nil || strings.Join(got, "|") != want {
		t.Errorf("%q, %v; want %s", got, err, want)
	}
	for _, bad := range []string{"", "[]", "{", `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1} x`, `{"a":"\ud800"}`, "{\"\xff\":1}",
		`{"a":` + strings.Repeat("[", MaxDepth+1)} {
		if err := Members([]byte(bad), func(_, _ []byte) error { return nil }); err == nil {
			t.Errorf("%.20q is accepted", bad)
		}
	}
}

func TestElementsAreTheTextsOfAnArray(t *testing.T) {
	var got []string
	err := Elements([]byte(`[1, "a" ,[]]`), func(value []byte) error {
		got = append(got, string(value))
		return nil
	})
	if err != nil || strings.Join(got, "|") != `1|"a"|[]` {
		t.Errorf("%q, %v", got, err)
	}
}

// A valid text can be put into an object unchanged, and Members then returns it.
func FuzzValid(f *testing.F) {
	for _, text := range []string{`{"a":[1,2.5e3,"\u00fc",null,true]}`, ` "x" `, "-0", `"\ud83d\ude00"`, "[[[]]]", "tru"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !Valid(text) {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("encoding/json refuses %q", text)
		}
		object, found := bytes.Join([][]byte{[]byte(`{"v":`), text, []byte("}")}, nil), []byte(nil)
		err := Members(object, func(_, value []byte) error {
			found = value
			return nil
		})
		if want := bytes.Trim(text, " \t\r\n"); err != nil || !bytes.Equal(found, want) {
			t.Fatalf("%q became %q, %v", want, found, err)
		}
		if found[0] != '"' {
			return
		}
		got, err := String(found)
		var want string
		if errOf := json.Unmarshal(found, &want); err != nil || errOf != nil || got != want {
			t.Fatalf("%q is %q, %v, not %q, %v", found, got, err, want, errOf)
		}
	})
}
