package api

import (
	"encoding/binary"
	"math/bits"
)

// cursor goes through a JSON text (RFC 8259) without making anything of it. It takes less than there is to take: where it
// says no, encoding/json has to be asked, and what it says yes to, encoding/json takes as well. A no is ok == false; the
// cursor then stands anywhere.
type cursor struct {
	data []byte
	at   int
}

// plainDepth is how deep a value may nest before encoding/json is asked, which looks after the stack.
const plainDepth = 200

// blanks passes over white space.
func (c *cursor) blanks() {
	for c.at < len(c.data) && isSpace(c.data[c.at]) {
		c.at++
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// take passes over blanks and this byte.
func (c *cursor) take(b byte) bool {
	c.blanks()
	if c.at >= len(c.data) || c.data[c.at] != b {
		return false
	}
	c.at++
	return true
}

// end reports whether nothing but blanks is left.
func (c *cursor) end() bool {
	c.blanks()
	return c.at == len(c.data)
}

// plain reads a string that is spelled as it is: printable ASCII without escapes.
func (c *cursor) plain() (text []byte, ok bool) {
	if !c.take('"') {
		return nil, false
	}
	start := c.at
	for n, b := range c.data[start:] {
		switch {
		case b == '"':
			c.at = start + n + 1
			return c.data[start : start+n], true
		case b == '\\' || b < ' ' || b > '~':
			return nil, false
		}
	}
	return nil, false
}

// value passes over any value and gives its bytes.
func (c *cursor) value() (raw []byte, ok bool) {
	c.blanks()
	start := c.at
	if !c.skip(0) {
		return nil, false
	}
	return c.data[start:c.at:c.at], true
}

func (c *cursor) skip(depth int) bool {
	c.blanks()
	if c.at >= len(c.data) || depth >= plainDepth {
		return false
	}
	switch b := c.data[c.at]; b {
	case '{':
		return c.members('}', depth, true)
	case '[':
		return c.members(']', depth, false)
	case '"':
		return c.skipString()
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	}
	return c.skipNumber()
}

// members passes over an object, whose values have names, or an array.
func (c *cursor) members(closing byte, depth int, named bool) bool {
	c.at++
	if c.take(closing) {
		return true
	}
	for {
		if named && !c.name() || !c.skip(depth+1) {
			return false
		}
		if !c.take(',') {
			return c.take(closing)
		}
	}
}

func (c *cursor) name() bool {
	c.blanks()
	return c.at < len(c.data) && c.data[c.at] == '"' && c.skipString() && c.take(':')
}

func (c *cursor) word(w string) bool {
	if len(c.data)-c.at < len(w) || string(c.data[c.at:c.at+len(w)]) != w {
		return false
	}
	c.at += len(w)
	return true
}

// skipString passes over a string, eight bytes at a time as long as they mean nothing.
func (c *cursor) skipString() bool {
	for c.at++; ; {
		for c.at+8 <= len(c.data) {
			n := meaning(binary.LittleEndian.Uint64(c.data[c.at:]))
			c.at += n
			if n < 8 {
				break
			}
		}
		if c.at >= len(c.data) {
			return false
		}
		switch b := c.data[c.at]; {
		case b == '"':
			c.at++
			return true
		case b == '\\':
			if !c.escape() {
				return false
			}
		case b < ' ':
			return false
		default:
			c.at++
		}
	}
}

// meaning gives the place of the first of eight bytes that means something in a string (a quote, a backslash or a control
// character), 8 if none does. Each of the three tests leaves the top bit of such a byte set; what a borrow may set beside
// it lies behind the first.
func meaning(w uint64) int {
	const each, top = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^each*'"', w^each*'\\'
	found := (quote-each)&^quote | (slash-each)&^slash | (w-each*' ')&^w
	return bits.TrailingZeros64(found&top) / 8
}

func (c *cursor) escape() bool {
	if c.at+1 >= len(c.data) {
		return false
	}
	switch c.data[c.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.at += 2
		return true
	case 'u':
		if c.at+6 > len(c.data) {
			return false
		}
		for _, b := range c.data[c.at+2 : c.at+6] {
			if !('0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F') {
				return false
			}
		}
		c.at += 6
		return true
	}
	return false
}

func (c *cursor) skipNumber() bool {
	if c.data[c.at] == '-' {
		c.at++
	}
	zero := c.at < len(c.data) && c.data[c.at] == '0'
	if n := c.digits(); n == 0 || zero && n > 1 {
		return false
	}
	if c.at < len(c.data) && c.data[c.at] == '.' {
		c.at++
		if c.digits() == 0 {
			return false
		}
	}
	if c.at < len(c.data) && (c.data[c.at] == 'e' || c.data[c.at] == 'E') {
		c.at++
		if c.at < len(c.data) && (c.data[c.at] == '+' || c.data[c.at] == '-') {
			c.at++
		}
		return c.digits() > 0
	}
	return true
}

func (c *cursor) digits() (n int) {
	for c.at < len(c.data) && '0' <= c.data[c.at] && c.data[c.at] <= '9' {
		c.at, n = c.at+1, n+1
	}
	return n
}
