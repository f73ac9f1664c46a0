package mysql

import (
	"fmt"
	"testing"
)

func TestASourceColumnSaysTheKindOfItsKeys(t *testing.T) {
	for declared, want := range map[string]any{
		"int": int64(0), "bigint(20) unsigned": int64(0), "year": int64(0), "bit(3)": int64(0), "binary(16)": []byte(nil), "varbinary(9)": []byte(nil),
		"decimal(10,2)": "0.00", "decimal(5,0)": "0.", "decimal(10,3) unsigned zerofill": "0.000", "datetime(6)": "0.000000", "time": "0.", "date": "",
		"varchar(20)": "", "enum('a','b')": "", "uuid": "",
	} {
		c := SourceColumn{Type: declared}
		if got := c.keyKind(); fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", want, want) {
			t.Errorf("%s: %T %v, want %T %v", declared, got, got, want, want)
		}
	}
}
