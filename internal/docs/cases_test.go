package docs_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/hex"
	"fmt"
	"io"
)

// columnCase is a column of a source table without a body, and a value.
type columnCase struct {
	ddl, literal string
}

func columnCases() []columnCase {
	return []columnCase{
		{"TINYINT", "-128"},
		{"BOOLEAN", "TRUE"},
		{"INT UNSIGNED", "4294967295"},
		{"BIGINT", "9007199254740993"},
		{"BIGINT UNSIGNED", "18446744073709551615"},
		{"DECIMAL(20,5)", "-123456789012345.67891"},
		{"DECIMAL(9,2)", "1.5"},
		{"FLOAT", "1.1"},
		{"DOUBLE", "0.1e0 + 0.2e0"},
		{"BIT(12)", "b'101010101010'"},
		{"YEAR", "2024"},
		{"DATE", "'2024-02-29'"},
		{"DATETIME", "'2024-05-06 07:08:09'"},
		{"DATETIME(6)", "'2024-05-06 07:08:09.120000'"},
		{"TIMESTAMP(3) NULL", "'2024-05-06 07:08:09.120'"},
		{"TIME", "'-838:59:58'"},
		{"TIME(2)", "'12:34:56.70'"},
		{"CHAR(10)", "'ünïcödé'"},
		{"VARCHAR(20)", "'学校 😀 '"},
		{"TEXT CHARACTER SET latin1", "'café'"},
		{"BINARY(16)", "0x71f0c4d2291844cca2df6f486e960000"},
		{"VARBINARY(16)", "0x0100"},
		{"BLOB", "0xff00"},
		{"ENUM('a','b,c')", "'b,c'"},
		{"SET('a','b','c')", "'a,c'"},
		{"JSON", `'{"b": 1, "a": [1.0, 18446744073709551615]}'`},
		{"JSON", "JSON_OBJECT('n', CAST(12345678901234567890.50 AS DECIMAL(30,2)))"},
	}
}

// bodyCase is a property of a body.
type bodyCase struct {
	codec string // the table's
	shown string // the value as the documentation writes it
	body  []byte
}

const sixteen = "71f0c4d2291844cca2df6f486e96e37c"

func bodyCases() []bodyCase {
	var cases []bodyCase
	for _, v := range []string{"true", "42", "9007199254740993", "18446744073709551615", "0.1", "1.50",
		"12345678901234567890.123", "1e400", `"text"`, `"学校 😀"`, `"007"`, `"42"`, `"71f0c4d2-2918-44cc-a2df-6f486e96e37c"`, `"2009-02-27"`,
		`"2009-02-27T18:30:05+09:00"`, `[1, "a"]`, `{"b": 1, "a": 2.50}`} {
		cases = append(cases, bodyCase{"json", v, []byte(`{"v": ` + v + `}`)})
	}
	add := func(codec, head, tail string, layer func(io.Writer) io.WriteCloser, values ...[2]string) {
		for _, v := range values {
			raw, err := hex.DecodeString(head + v[1] + tail)
			if err != nil {
				panic(fmt.Sprintf("%s %s: %v", codec, v[0], err))
			}
			if layer != nil {
				var b bytes.Buffer
				w := layer(&b)
				_, _ = w.Write(raw) // writing to a buffer never fails
				_ = w.Close()
				raw = b.Bytes()
			}
			cases = append(cases, bodyCase{codec, v[0], raw})
		}
	}
	add("gzip+msgpack", "81a176", "", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		[2]string{"true", "c3"}, [2]string{"uint64 18446744073709551615", "cfffffffffffffffff"},
		[2]string{"float64 0.1", "cb3fb999999999999a"},
		[2]string{"float32 0.1", "ca3dcccccd"}, [2]string{"str abc", "a3616263"}, [2]string{"bin, 16 bytes", "c410" + sixteen},
		[2]string{`map {"a":1}`, "81a16101"})
	add("zlib+pickle", "80027d550176", "732e", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		[2]string{"True", "88"}, [2]string{"2**53 + 1", "8a0701000000000020"}, [2]string{"2**70", "8a09000000000000000040"},
		[2]string{"0.1", "473fb999999999999a"},
		[2]string{"u'学校'", "5806000000e5ada6e6a0a1"}, [2]string{"'abc' (Python 2's str)", "5503616263"},
		[2]string{"16 bytes", "5510" + sixteen}, [2]string{"[1, 'a']", "5d284b0155016165"},
		[2]string{"datetime(2009, 2, 27, 18, 30, 5)",
			"636461746574696d650a6461746574696d650a7100635f636f646563730a656e636f64650a7101580b00000007c399021b121e05000000710258060000006c6174696e317103867104527105857106527107"},
		[2]string{"datetime in UTC",
			"636461746574696d650a6461746574696d650a7100635f636f646563730a656e636f64650a7101580b00000007c399021b121e05000000710258060000006c6174696e317103867104527105636461746574696d650a74696d657a6f6e650a7106636461746574696d650a74696d6564656c74610a71074b004b004b0087710852710985710a52710b86710c52710d"},
		[2]string{"date(2009, 2, 27)",
			"636461746574696d650a646174650a7100635f636f646563730a656e636f64650a7101580500000007c399021b710258060000006c6174696e317103867104527105857106527107"},
		[2]string{"timedelta(hours=26, milliseconds=500)",
			"636461746574696d650a74696d6564656c74610a71004b014d201c4a20a10700877101527102"},
		[2]string{"Decimal('1.50')", "63646563696d616c0a446563696d616c0a71005804000000312e35307101857102527103"},
		[2]string{"UUID", "63757569640a555549440a7100298171017d71025803000000696e7471038a107ce3966e486fdfa2cc441829d2c4f0717362"})
	add("cbor", "a16176", "", nil,
		[2]string{"true", "f5"}, [2]string{"9007199254740993", "1b0020000000000001"},
		[2]string{"bignum 2^70", "c249400000000000000000"},
		[2]string{"decimal fraction 273.15", "c48221196ab3"}, [2]string{"half float 1.5", "f93e00"},
		[2]string{"text abc", "63616263"}, [2]string{"16 bytes", "50" + sixteen},
		[2]string{"date and time", "c074323031332d30332d32315432303a30343a30305a"})
	return cases
}

// targetTypes returns the types of the columns in which a property is stored.
func targetTypes() []string {
	return []string{"BOOLEAN", "INT", "BIGINT", "BIGINT UNSIGNED", "DECIMAL(40,10)", "DOUBLE", "VARCHAR(60)", "BINARY(16)",
		"VARBINARY(60)", "DATE", "DATETIME", "JSON"}
}
