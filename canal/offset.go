package canal

import (
	"encoding/base64"
	"encoding/json"
	"math/big"
)

// Offset is the place before an offset that a person names, for a scan that is to begin there: of a table with one offset
// column. Integers are counted back by one; of other values the one that is named is left out.
func Offset(text string) string {
	if n, ok := new(big.Int).SetString(text, 10); ok {
		text = n.Sub(n, big.NewInt(1)).String()
	}
	encoded, _ := json.Marshal([]string{base64.RawStdEncoding.EncodeToString([]byte(text))}) // strings always encode
	return string(encoded)
}
