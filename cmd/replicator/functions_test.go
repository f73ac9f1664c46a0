package main

import (
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// The functions in expressions return the same values as the server's functions of the same name.
func TestFunctionsGiveWhatTheServersOwnDo(t *testing.T) {
	t.Parallel()
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		l := newBareLab(t, servertest.Shared(t, kind))
		l.exec(`CREATE TABLE person (id BINARY(16) PRIMARY KEY, mail VARCHAR(100) CHARACTER SET utf8mb4,
				old VARCHAR(100) CHARACTER SET latin1, raw VARBINARY(200), price DECIMAL(20,2), n BIGINT UNSIGNED,
				digits VARCHAR(60))`,
			`CREATE TABLE v (id BINARY(16) PRIMARY KEY, sha CHAR(64), sha_old CHAR(64), sha_raw CHAR(64), sha_id CHAR(64),
				md CHAR(32), md_price CHAR(32), crc INT UNSIGNED, crc_n INT UNSIGNED, crc_raw INT UNSIGNED,
				hexed VARCHAR(400), hex_raw VARCHAR(400), base VARCHAR(400), u CHAR(36), bin VARBINARY(60))`)
		l.configure(source, `
[checkpoint]
path = "state"
interval = "100ms"

[http]
listen = "${LISTEN}"

[tables.person]
key = "id"
`, mainSink, `
[views.v]
from = "person"
sink = "main"
kind = "row"
key = { id = "$id" }

[views.v.fields]
sha = "=sha256(lower(mail))"
sha_old = "=sha256(old)"
sha_raw = "=sha256(raw)"
sha_id = "=sha256($id)"
md = "=md5(mail)"
md_price = "=md5(price)"
crc = "=crc32(mail)"
crc_n = "=crc32(n)"
crc_raw = "=crc32(raw)"
hexed = "=hex(mail)"
hex_raw = "=hex(raw)"
base = "=base64(raw)"
u = "=uuid(id)"
bin = "=unhex(digits)"
`)
		insert := func(id, rest string) {
			t.Helper()
			l.exec("INSERT INTO person VALUES (UNHEX(LEFT(SHA2('" + id + "', 256), 32)), " + rest + ")")
		}
		insert("scanned", `'Ada@Exämple.test', 'café', UNHEX('FF00FE'), 1.50, 18446744073709551615, '00fFA0'`)
		insert("empty", `'', '', '', 0, 0, ''`)
		insert("null", `NULL, NULL, NULL, NULL, NULL, NULL`)
		l.running()
		l.caughtUp()
		insert("tailed", `'😀 smile', 'naïve', REPEAT(UNHEX('0A00'), 50), -12345678901234567.89, 7, 'DEADbeef'`)
		l.exec(`INSERT INTO person (id, mail) VALUES (UNHEX('00112233445566778899AABBCCDD0000'), ' padded ')`)
		l.caughtUp()
		if kind.IsMariaDB() { // MySQL 9.6 and later have no MD5 without a component
			l.expectLike("SELECT md, md_price FROM v ORDER BY id", "SELECT MD5(mail), MD5(price) FROM person ORDER BY id")
		}
		l.expectLike("SELECT HEX(id), sha, sha_old, sha_raw, sha_id, crc, crc_n, crc_raw, hexed, hex_raw,"+
			" base, u, HEX(bin) FROM v ORDER BY id",
			`SELECT HEX(id), SHA2(LOWER(mail), 256), SHA2(CONVERT(old USING utf8mb4), 256), SHA2(raw, 256), SHA2(id, 256),
				CRC32(mail), CRC32(n), CRC32(raw), LOWER(HEX(mail)), LOWER(HEX(raw)),
				REPLACE(TO_BASE64(raw), '\n', ''), LOWER(CONCAT_WS('-', SUBSTR(HEX(id), 1, 8), SUBSTR(HEX(id), 9, 4),
				SUBSTR(HEX(id), 13, 4), SUBSTR(HEX(id), 17, 4), SUBSTR(HEX(id), 21))), HEX(UNHEX(digits))
				FROM person ORDER BY id`)
		l.must("verify", "v")
	})
}
