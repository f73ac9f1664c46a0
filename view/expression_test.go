package view

import (
	"strings"
	"testing"

	"replicator"
)

// evalField evaluates one field for a users cell with the given body.
func evalField(t *testing.T, field, body string) string {
	t.Helper()
	e := mustCompile(t, userView(replicator.View{Kind: "row", Fields: fields(field)}))
	return show(e.Evaluate(userCell(t), userRow(userCell(t), body))[0])
}

const missing = "<nil>(<nil>)"

func TestExpressionsCalculate(t *testing.T) {
	tests := []struct{ expr, body, want string }{
		{"=lower(email)", `{"email":"A@B"}`, "string(a@b)"},
		{"=address.city", `{"address":{"city":"Oslo"}}`, "string(Oslo)"},
		{"=lines[1].sku", `{"lines":[{"sku":"a"},{"sku":"b"}]}`, "string(b)"},
		{"=lines[-1].sku", `{"lines":[{"sku":"a"},{"sku":"b"}]}`, "string(b)"},
		{`=$env["odd-name"] + "!"`, `{"odd-name":"x"}`, "string(x!)"},
		{`=a["b c"]`, `{"a":{"b c":1}}`, "int64(1)"},
		{"=n + 1", `{"n":9007199254740993}`, "int64(9007199254740994)"},
		{"=n + 1", `{"n":9223372036854775807}`, "replicator.Number(9223372036854775808)"},
		{"=n * -3", `{"n":9223372036854775807}`, "replicator.Number(-27670116110564327421)"},
		{"=-n - 2", `{"n":9223372036854775807}`, "replicator.Number(-9223372036854775809)"},
		{"=n - n + 5", `{"n":18446744073709551615}`, "int64(5)"},
		{"=n", `{"n":18446744073709551615}`, "replicator.Number(18446744073709551615)"},
		{"=n", `{"n":12345678901234567890.0123456789000}`, "replicator.Number(12345678901234567890.0123456789)"},
		{"=n ?? 0", `{"n":12345678901234567890.0123456789}`, "replicator.Number(12345678901234567890.0123456789)"},
		{"=n > 0 ? [n] : nil", `{"n":0.30000000000000000004}`, "[]interface {}([0.30000000000000000004])"},
		{"=n", `{"n":9007199254740993.0}`, "int64(9007199254740993)"},
		{"=n == 12345678901234567890.0123456789", `{"n":12345678901234567890.0123456789}`, "bool(true)"},
		{"=n == 12345678901234567890.0123456789", `{"n":12345678901234567890.0123456788}`, "bool(false)"},
		{"=n == 9007199254740992", `{"n":9007199254740993.5}`, "bool(false)"},
		{"=n == m", `{"n":9007199254740993,"m":9.007199254740992e15}`, "bool(false)"},
		{"=n == m", `{"n":3,"m":3.0}`, "bool(true)"},
		{"=n < 9007199254740994 && n > 9007199254740993", `{"n":9007199254740993.5}`, "bool(true)"},
		{"=n / 2", `{"n":18446744073709551614}`, "int64(9223372036854775807)"},
		{"=string(n)", `{"n":18446744073709551615}`, "string(18446744073709551615)"},
		{"=toJSON([n])", `{"n":18446744073709551615}`, "string([\n  18446744073709551615\n])"},
		{"=n + 0.5", `{"n":1234567890123456789}`, "replicator.Number(1234567890123456789.5)"},
		{"=m - n", `{"n":9223372036854775807,"m":0.5}`, "replicator.Number(-9223372036854775806.5)"},
		{"=n * m", `{"n":9007199254740993,"m":0.5}`, "replicator.Number(4503599627370496.5)"},
		{"=n * 3", `{"n":0.1}`, "float64(0.3)"},
		{"=a + b", `{"a":0.1,"b":0.2}`, "float64(0.3)"},
		{"=price * qty", `{"price":19.99,"qty":3}`, "float64(59.97)"},
		{"=n * n", `{"n":0.1234567890123456}`, "float64(0.015241578753238817)"},
		{"=n * 2", `{"n":1e300}`, "float64(2e+300)"},
		{"=n + 1", `{"n":1e-400}`, "int64(1)"},
		{"=a + b", `{"a":"x","b":"y"}`, "string(xy)"},
		{"=reduce(l, #acc + #, 0)", `{"l":[1,18446744073709551615]}`, "replicator.Number(18446744073709551616)"},
		{"=n * 2", `{"n":1.5}`, "float64(3)"},
		{"=n * 1.5", `{"n":1.5}`, "float64(2.25)"},
		{"=n + 1", `{"n":1e3}`, "int64(1001)"},
		{"=n > 1.0", `{"n":18446744073709551615}`, "bool(true)"},
		{"=type == 'x' ? len : count", `{"type":"x","len":1,"count":2}`, "int64(1)"}, // not functions
		{"=$column_name + ':' + string(id)", `{"id":5}`, "string(users:5)"},
		{"=$row_key", `{}`, "string(71f0c4d2291844cca2df6f486e96e37c)"},
		{"=sum(lines, .qty)", `{"lines":[{"qty":1},{"qty":2}]}`, "int64(3)"},
		{"=sum(lines, .qty * .price)", `{"lines":[{"qty":3,"price":0.1},{"qty":1,"price":0.7}]}`, "float64(1)"},
		{"=sum(n)", `{"n":[0.1,0.2,9007199254740993]}`, "replicator.Number(9007199254740993.3)"},
		{"=sum(n)", `{"n":[]}`, "int64(0)"},
		{"=sum(filter(n, # > 1), # * 2)", `{"n":[1,2,3]}`, "int64(10)"},
		{"=sum(lines, sum(.n) + #index)", `{"lines":[{"n":[1,2]},{"n":[3]}]}`, "int64(7)"},
		{"=map(filter(lines, .qty > 1), .sku)", `{"lines":[{"qty":1,"sku":"a"},{"qty":2,"sku":"b"}]}`, "[]interface {}([b])"},
		{"=let n = lower(name); n + n", `{"name":"A"}`, "string(aa)"},
		{"=keys(a)", `{"a":{"c":1,"a":2,"b":3}}`, "[]interface {}([a b c])"},
		{"=values(a)", `{"a":{"c":1,"a":2,"b":3}}`, "[]interface {}([2 3 1])"},
		{"=split(s, ',')", `{"s":"a,b"}`, "[]interface {}([a b])"},
		{"=groupBy(l, # % 2 == 0)", `{"l":[1,2,3]}`, "replicator.Object([{false [1 3]} {true [2]}])"},
		{"={'a': n, 'b': [n]}", `{"n":1}`, "replicator.Object([{a 1} {b [1]}])"},
		{"=date(d)", `{"d":"2026-01-02T03:04:05+01:00"}`, "string(2026-01-02T02:04:05)"},
		{"=lower(string(date(d)))", `{"d":"2026-01-02T03:04:05Z"}`, "string(2026-01-02 03:04:05 +0000 utc)"},
		{"=md5(string(date(d)))", `{"d":"2026-01-02T03:04:05Z"}`, "string(a93b9c1fc08a5c27eef08120a789a90d)"},
		{"=date(d, '2006-01-02')", `{"d":"2026-01-02"}`, "string(2026-01-02T00:00:00)"},
		{"=duration(d)", `{"d":"90s"}`, "string(1m30s)"},
		{"=email matches '^a'", `{"email":"ab"}`, "bool(true)"},
	}
	for _, tt := range tests {
		if got := evalField(t, tt.expr, tt.body); got != tt.want {
			t.Errorf("%s over %s: got %s, want %s", tt.expr, tt.body, got, tt.want)
		}
	}
}

func TestAnExpressionOverSomethingMissingIsMissing(t *testing.T) {
	tests := []struct{ expr, body, want string }{
		{"=lower(email)", `{}`, missing},
		{"=lower(email)", `{"email":null}`, missing},
		{"=a.b.c", `{"a":{"b":5}}`, missing},
		{"=a.b.c", `{"a":[1]}`, missing},
		{"=l[3]", `{"l":[1]}`, missing},
		{"=a || b", `{"a":true}`, missing},
		{"=n ?? 5", `{}`, "int64(5)"},
		{"=a.b.c ?? 5", `{}`, "int64(5)"},
		{"=a?.b ?? 5", `{}`, "int64(5)"},
		{"=a?.b", `{}`, missing},
		{"=a?.b?.c == 1", `{}`, "bool(false)"},
		{"=n == nil", `{}`, "bool(true)"},
		{"=n != nil ? lower(n) : 'none'", `{}`, "string(none)"},
		{"=nil == n", `{"n":1}`, "bool(false)"},
		{"=n == nil || lower(m) == 'x'", `{}`, missing}, // the expression doesn't handle a missing m
		{"=n == nil || lower(m) == 'x'", `{"m":"X"}`, "bool(true)"},
		{"=a != nil && a.b == 1", `{}`, "bool(false)"}, // handling a missing a also handles a missing a.b
		{"=a != nil && a.b == 1", `{"a":{}}`, "bool(false)"},
		{"=first ?? last", `{"last":"x"}`, "string(x)"},
		{"=(lower(a) ?? 'b') + c", `{"a":"X"}`, missing},
		{"='const'", `{}`, "string(const)"},
		{"=find(l, # > 5)", `{"l":[1]}`, missing},
		{`=$env["odd name"] ?? 1`, `{}`, "int64(1)"},
	}
	for _, tt := range tests {
		if got := evalField(t, tt.expr, tt.body); got != tt.want {
			t.Errorf("%s over %s: got %s, want %s", tt.expr, tt.body, got, tt.want)
		}
	}
}

func TestWhatAnExpressionCannotDoIsAnErrorWithoutValues(t *testing.T) {
	tests := []struct{ expr, body, want string }{
		{"=lower(email)", `{"email":5}`, "a value is int, not string (at character 1)"},
		{"=int(email)", `{"email":"secret"}`, "a value is not a number (at character 1)"},
		{"=float(email)", `{"email":"secret"}`, "a value is not a number (at character 1)"},
		{"=a + b", `{"a":1,"b":"secret"}`, "invalid operation: int + string (at character 3)"},
		{"=l[i]", `{"l":[1],"i":7}`, "index out of range (at character 2)"},
		{"=map(l, .x.y)", `{"l":[{"x":"secret"}]}`, "a value is not a number (at character 11)"},
		{"=map(l, .x.y)", `{"l":[{"x":true}]}`, "a member of a value without members (at character 11)"},
		{"=date(d)", `{"d":"secret"}`, "the expression failed (at character 1)"},
		{"=fromJSON(d)", `{"d":"secret"}`, "the expression failed (at character 1)"},
		{"=matches_ matches re", `{"matches_":"x","re":"secret("}`, "the expression failed (at character 10)"},
		{"=repeat('x', n)", `{"n":-1}`, "the expression failed (at character 1)"},
		{"=bitshl(1, n)", `{"n":-5}`, "the expression failed (at character 1)"},
		{"=a / b", `{"a":1,"b":0}`, "the result is not a finite number"},
		{"=n + 1", `{"n":1e400}`, "n: the number is too large for an expression"},
		{"=n * n * n", `{"n":1e200}`, "the result is not a finite number"},
		{"=n / (n - n)", `{"n":18446744073709551615}`, "invalid operation: a division by zero (at character 3)"},
		{"=abs(n)", `{"n":18446744073709551615}`,
			"a number has too many digits for this operation (at character 1)"},
		{"=s[0:1]", `{"s":"é"}`,
			"the result is not valid UTF-8. A slice counts bytes, so it may cut a character in two"},
		{"=map(1..n, 1..n)", `{"n":10000}`, "memory budget exceeded (at character 12)"},
		{"=repeat('x', n)", `{"n":100000000}`, "memory budget exceeded (at character 1)"},
	}
	for _, tt := range tests {
		want := "error: view v: " + tt.expr + ": " + tt.want
		got := evalField(t, tt.expr, tt.body)
		if got != want {
			t.Errorf("%s over %s:\ngot  %s\nwant %s", tt.expr, tt.body, got, want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s: the error holds a value", tt.expr)
		}
	}
}

func TestExpressionsDoNotChangeWhatOtherFieldsSee(t *testing.T) {
	e := mustCompile(t, userView(replicator.View{Kind: "row",
		Fields: fields("=sort(l)", "=reverse(l)", "l", "=concat(l, [9])", "l")}))
	got := show(e.Evaluate(userCell(t), userRow(userCell(t), `{"l":[2,1,3]}`))[0])
	want := "[]interface {}([1 2 3]) []interface {}([3 1 2]) []interface {}([2 1 3]) []interface {}([2 1 3 9]) []interface {}([2 1 3])"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
