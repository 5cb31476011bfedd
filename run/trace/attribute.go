package trace

import (
	"regexp"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

func text(key, value string) Attribute { return Attribute{Key: key, Text: value} }

func number(key string, n int) Attribute { return Attribute{Key: key, Number: int64(n)} }

// aCode is the form of codes. A program may put any text into the place of a code, even a secret.
var aCode = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// otherCode stands for a code that has not the form of one.
const otherCode = "OTHER"

// appendCode adds the code of a failure, if there is one.
func appendCode(to []Attribute, code string) []Attribute {
	switch {
	case code == "":
		return to
	case !aCode.MatchString(code):
		code = otherCode
	}
	return append(to, text("code", code))
}
